"""What a command line speaks of.  Without doit: some questions need nothing else."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Sequence

from pipeline.build import project
from pipeline.edge.files import is_pattern


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


def count_targets(words: list[str]) -> int:
    number = len(project.graph(plans_for(words)).targets)
    print(f"{number} target{'s' if number != 1 else ''}")
    return 0
