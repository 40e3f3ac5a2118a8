"""The workers there are, by name: what a strategy of a spec may be done by.

A worker is `async run_<name>(goal, timeout) -> Result`.  It keeps to `timeout` seconds by itself, may raise what it
likes, and when cancelled ends what it started before it lets the cancellation through."""

from __future__ import annotations

from pipeline.errors import SpecError, instead
from pipeline.proof.workers.copilot import LACKING as COPILOT
from pipeline.proof.workers.reprover import LACKING as REPROVER
from pipeline.proof.workers.sketch import LACKING as SKETCH

BUILT = ("micro",)
NOT_BUILT = {lacking.name: lacking for lacking in (COPILOT, REPROVER, SKETCH)}
WORKERS = (*BUILT, *NOT_BUILT)
# By ORCH_PROFILE; more than the last is the last.
PROFILES = (("micro",), ("micro", "copilot", "sketch"), WORKERS)


def of_profile(number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Its workers that there are, and those that are not built: whoever runs the profile says so once."""
    names = PROFILES[min(number, len(PROFILES) - 1)]
    return tuple(name for name in names if name in BUILT), tuple(name for name in names if name in NOT_BUILT)


def demand(name: str) -> None:
    """A SpecError where there is no such worker, before anything runs; whoever reads the spec adds the line."""
    if name in NOT_BUILT:
        raise NOT_BUILT[name].error()
    if name not in BUILT:
        raise SpecError(f"worker '{name}' is unknown{instead(name, WORKERS)}")
