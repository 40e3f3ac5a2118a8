"""What the runner tells in the course of a build, as records: the ground that all reporters stand on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome


class Build(NamedTuple):
    """What a build sets out to do, as known before its first target starts."""

    targets: Sequence[Target]  # all of the graph; each comes after those it reads from
    above: Callable[[int], Iterable[int]]
    needed: Collection[int]  # asked for, or what that is made from
    todo: Collection[int]  # of these, the ones in doubt
    jobs: int
    rooms: Mapping[str, int]  # `run:room` -> its places
    receipt: Callable[[Target], Receipt | None]  # of the last time; reads a file


class Reporter:
    """What can be heard of a build; this one hears nothing.  All but `stopping` is told by the main thread."""

    def __init__(self, outstream: Any, options: Mapping[str, Any]) -> None:
        self.outstream = outstream

    def begin(self, build: Build) -> None:
        """Only to be remembered: effects start with `initialize`, from where on `complete_run` is sure to follow."""
        self.build = build

    def stopping(self, why: str) -> None:
        """Nothing more will be started.  Told by any thread and by signal handlers: set a mark, no more."""

    def started(self, target: Target) -> None: ...

    def said(self, target: Target, line: str) -> None:
        """How far it is."""

    def ended(self, target: Target, outcome: Outcome) -> None: ...

    def initialize(self, tasks: Any, selected: Any) -> None:
        """doit's name for the start."""

    def complete_run(self) -> None:
        """And for the end."""

    def runtime_error(self, msg: str) -> None:
        """And for what went wrong in doit itself."""
        sys.stderr.write(f"{msg}\n")
