"""Searches that no spec stands for alone: a bank run with other settings, and work on whatever is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.banks import plan as banks
from pipeline.banks.settings import LEDGER, LeanKeys
from pipeline.core.graph import Limits, Target
from pipeline.errors import SpecError
from pipeline.proof.flags import VARIABLES
from pipeline.proof.model import TIMEOUTS
from pipeline.proof.plan import prove_params, source_of
from pipeline.proof.settings import Pace, ProofSpec, Search
from pipeline.proof.workers import demand, of_profile

DEFAULT_PROFILE = 1
# Budgets grow as often as this: nobody waits for the last of them.
LEVELS = 12
PURSUE = "pursue"


def alone(bank: str) -> ProofSpec:
    """A bank without a spec."""
    return ProofSpec("", 1, bank, LeanKeys(), Search({}), Pace(), None, (1,), LEDGER, None)


def overridden(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """What was typed or stands in the environment goes before the spec, and that before documented defaults."""
    missing = {flag.key: flag.default for flag in VARIABLES if flag.key not in spec.given and flag.key != "profile"}
    settled = {**missing, **values}
    search = {key: value for key, value in settled.items() if key in Search._fields}
    pace = {key: value for key, value in settled.items() if key in Pace._fields}
    spec = spec._replace(search=spec.search._replace(**search), pace=spec.pace._replace(**pace))
    return _with_profile(spec, values) if "profile" in values or not spec.search.strategies else spec


def _with_profile(spec: ProofSpec, values: Mapping[str, Any]) -> ProofSpec:
    """Budgets of the spec stay.  The default profile is what of it is built; one that is asked for is all built."""
    profile = values.get("profile", DEFAULT_PROFILE)
    built, lacking = of_profile(profile)
    for name in lacking if "profile" in values else ():
        _demand(name, profile)
    strategies = {name: spec.search.strategies.get(name, TIMEOUTS[name]) for name in built}
    return spec._replace(profile=profile, search=spec.search._replace(strategies=strategies))


def _demand(name: str, profile: int) -> None:
    try:
        demand(name)
    except SpecError as error:
        raise SpecError(f"profile {profile}: {error}; profile 0 is micro alone") from error


def pursuit(spec: ProofSpec, bank: str, seconds: float | None, stamp: str) -> Sequence[Target]:
    """Works on what is open in the ledger, or of `bank` alone, with ever larger budgets.  `stamp` is never the same."""
    asked = spec._replace(search=spec.search._replace(levels=LEVELS, timeout=seconds, samples=1))
    reads = {"toolchain.json": f"runs/{spec.name}/toolchain.json", **({"bank.json": bank} if bank else {})}
    params = {**prove_params(asked), "stamp": stamp}
    written = ((f"{PURSUE}.json", (f"runs/{spec.name}/{PURSUE}.json",)),)
    ports = tuple((port, (path,)) for port, path in reads.items())
    return [
        banks.toolchain(source_of(spec)),
        Target(f"{spec.name}:{PURSUE}", PURSUE, ports, written, params, Limits(), spec.line),
    ]
