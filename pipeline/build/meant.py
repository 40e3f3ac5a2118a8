"""Which run a command about proofs means, and the plans for one that no spec in specs/ stands for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.build import project
from pipeline.build.project import RunPlan
from pipeline.core.graph import Target
from pipeline.errors import SpecError


class Meant(NamedTuple):
    """A run and its spec; the run is empty for a bank that has none."""

    run: str
    path: str
    spec: Any


def meant(command: str, words: Sequence[str], kind: str) -> Meant:
    """The run that the one word names, the bank if it is a file; without a word the one that is called like the
    command, or the only one there is."""
    if words and words[0].endswith(".jsonl"):
        return Meant("", words[0], kinds.able(kind, kinds.PROVING).alone(words[0]))
    if not words and not os.path.isdir("specs"):
        project.specs()  # says where there is one
    runs = dict(runs_of(kind, words))
    if words and words[0] not in runs:
        project.load(words)  # says what is wrong with the name, unless it is another kind of run
        raise SpecError(f"{command}: '{words[0]}' is no run of kind: {kind}")
    if not words and command not in runs and len(runs) != 1:
        which = f"name one of: {', '.join(runs)}" if runs else f"no spec is of kind: {kind}; name a bank, FILE.jsonl"
        raise SpecError(f"{command}: {which}")
    run = words[0] if words else command if command in runs else next(iter(runs))
    return Meant(run, runs[run], project.declared(run, runs[run]))


def runs_of(kind: str, words: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Each with its spec.  Where one is named, mistakes in the specs of others are in nobody's way."""
    asked = {run: path for run, path in _specs().items() if not words or run == words[0]}
    return ((run, path) for run, path in asked.items() if project.kind(path) == kind)


def _specs() -> Mapping[str, str]:
    """None are needed for a bank alone."""
    return project.specs() if os.path.isdir("specs") else {}


def plans_of(run: str, kind: str, meant: Meant, spec: Any, targets: Sequence[Target]) -> dict[str, RunPlan]:
    """Its plan, made each time it is asked for, and those of the runs that it reads from."""
    plan = project.unsaved(run, kind, meant.path, spec, targets)
    if plan.needs:
        known = _specs()
        plan = plan._replace(needs=tuple(need for need in plan.needs if need in known))
    return {**(project.load(plan.needs) if plan.needs else {}), run: plan}
