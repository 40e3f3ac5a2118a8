"""What a command line speaks of.  Without doit: some questions need nothing else."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from pipeline.build import project
from pipeline.build.exits import BAD_INPUT, FAILED, refuse
from pipeline.core.words import listed
from pipeline.edge.files import is_pattern
from pipeline.errors import SpecError


def run_of(word: str) -> str:
    """The run that a word on the command line speaks of: `run`, `run:target` or `runs/run/output`."""
    parts = os.path.normpath(word).split("/")
    if len(parts) > 2 and parts[0] == "runs":
        return parts[1]
    return word.partition(":")[0]


def plans_for(words: list[str]) -> dict[str, project.RunPlan]:
    """The plans of all runs that the command line speaks of; of every run when it names none."""
    known = project.specs()
    return project.load(sorted({run for word in words for run in runs_of(word, known)}) or known)


def runs_of(word: str, known: Iterable[str]) -> Sequence[str]:
    """All that a pattern matches; what matches none is refused when it is loaded."""
    run = run_of(word)
    return fnmatch.filter(known, run) or [run] if is_pattern(run) else [run]


def answered(words: list[str], answer: Callable[[list[str]], int], sources: bool = False) -> int:
    """`answer` for these words.  When none is named, a run with a mistake in it does not stand in the way of the
    others: it is told and left out, and the exit code says so.  `sources`: that a file is missing is such a mistake."""
    try:
        return answer(words)
    except SpecError:
        whole, mistakes = ([], {}) if words else _parted(sources)
        if not whole or not mistakes:
            raise
    for mistake in mistakes:
        refuse(mistake, BAD_INPUT)
    code = answer(whole)
    out = sorted(run for runs in mistakes.values() for run in runs)
    told = refuse(f"left out: {listed(out)}; `coppice plan {out[0]}` says why", BAD_INPUT)
    return told if code in (0, FAILED) else code


def _parted(sources: bool) -> tuple[list[str], dict[str, list[str]]]:
    """The runs that can be built, and the mistakes, each with the runs it is in the way of."""
    from pipeline.build.session import Session

    whole: list[str] = []
    mistakes: dict[str, list[str]] = {}
    for run in sorted(project.specs()):
        try:
            with closing(Session(project.load([run]))) as session:
                session.check_sources(session.stale(session.select([run])) if sources else ())
            whole.append(run)
        except SpecError as error:
            mistakes.setdefault(str(error), []).append(run)
    return whole, mistakes


def count_targets(words: list[str]) -> int:
    return answered(words, _counted)


def _counted(words: list[str]) -> int:
    number = len(project.graph(plans_for(words)).targets)
    print(f"{number} target{'s' if number != 1 else ''}")
    return 0
