"""What commands about proofs do alike: which search is meant, and what options and the environment say of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.build import project
from pipeline.build.project import RunPlan
from pipeline.build.tree_flags import Typed, given
from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.kinds import Flag
from pipeline.spec import parse

KIND = "proof"
FLAGS = kinds.flags(KIND)
VARIABLES = kinds.variables(KIND)
PROVING = kinds.able(KIND, kinds.PROVING)


class Meant(NamedTuple):
    """A run and its spec; the run is empty for a bank that has none."""

    run: str
    path: str
    spec: Any


def meant(command: str, words: Sequence[str]) -> Meant:
    """The run that the one word names, the bank if it is a file; without a word the only run there is."""
    if words and words[0].endswith(".jsonl"):
        return Meant("", words[0], PROVING.alone(words[0]))
    runs = dict(runs_of_proofs())
    if words and words[0] not in runs:
        project.load(words)  # says what is wrong with the name, unless it is another kind of run
        raise SpecError(f"{command}: '{words[0]}' is no run of kind: {KIND}")
    if not words and len(runs) != 1:
        which = f"name one of: {', '.join(runs)}" if runs else f"no spec is of kind: {KIND}; name a bank, FILE.jsonl"
        raise SpecError(f"{command}: {which}")
    run = words[0] if words else next(iter(runs))
    return Meant(run, runs[run], project.declared(run, runs[run]))


def runs_of_proofs() -> Iterator[tuple[str, str]]:
    """Each with its spec."""
    known = project.specs() if os.path.isdir("specs") else {}
    return ((run, path) for run, path in known.items() if project.kind(path) == KIND)


def settled(command: str, spec: Any, params: Mapping[str, Any], variables: Sequence[Flag] = VARIABLES) -> Any:
    """Options go before the environment, that before the spec."""
    environment = {flag.key: _of_environment(flag) for flag in variables if os.environ.get(flag.variable, "")}
    typed = {each.flag.key: each.value for each in given(command, FLAGS, params)}
    return PROVING.overridden(spec, {**environment, **typed})


def _of_environment(flag: Flag) -> Any:
    text = os.environ[flag.variable]
    return flag.read(
        Typed("environment", parse(text.encode(errors="surrogateescape"), flag.variable).node), flag.variable
    )


def plan_of(run: str, meant: Meant, targets: Sequence[Target], store: str | None) -> RunPlan:
    """Of a run that no spec in specs/ stands for: it is planned each time it is asked for."""
    return project.unsaved(run, KIND, meant.path, store, targets)
