"""What the runner tells in the course of a build, as records: the ground that all reporters stand on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target
from pipeline.core.outcome import IGNORED, SKIPPED, Outcome

# A step may read from ten thousand others; so many of them are named.
NAMED = 3


class Build(NamedTuple):
    """What a build sets out to do, as known before its first target starts."""

    targets: Sequence[Target]  # all of the graph; each comes after those it reads from
    above: Callable[[int], Iterable[int]]
    needed: Collection[int]  # asked for, or what that is made from
    todo: Collection[int]  # of these, the ones in doubt
    jobs: int
    rooms: Mapping[str, int]  # `run:room` -> its places
    receipt: Callable[[Target], Receipt | None]  # of the last time; reads a file


def needs(names: Sequence[str]) -> str:
    """Why a target cannot run: these above it did not succeed."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"needs {', '.join(names[:NAMED])}{more}"


class Reporter:
    """doit's names for what happens, brought down to a few.  The runner calls all of this in the main thread."""

    def __init__(self, outstream: Any, options: Mapping[str, Any]) -> None:
        self.outstream = outstream

    def begin(self, build: Build) -> None:
        """Only to be remembered: effects start with `initialize`, from where on `complete_run` is sure to follow."""
        self.build = build

    def stopping(self, why: str) -> None:
        """Nothing more will be started.  Called from a signal handler: set a mark, no more."""

    def started(self, target: Target) -> None: ...

    def ended(self, target: Target, outcome: Outcome) -> None: ...

    def initialize(self, tasks: Any, selected: Any) -> None: ...

    def complete_run(self) -> None: ...

    def execute_task(self, task: Any) -> None:
        self.started(task.target)

    def add_success(self, task: Any) -> None:
        self.ended(task.target, task.outcome)

    def skip_uptodate(self, task: Any) -> None:
        self.ended(task.target, task.outcome)

    def skip_ignore(self, task: Any) -> None:
        self.ended(task.target, Outcome(IGNORED))

    def add_failure(self, task: Any, fail: Any) -> None:
        """Without an outcome it never ran; the message then names those above it that are to blame."""
        self.ended(task.target, task.outcome or Outcome(SKIPPED, why=needs(fail.message.split())))

    def runtime_error(self, msg: str) -> None:
        sys.stderr.write(f"{msg}\n")

    def cleanup_error(self, exception: Any) -> None:
        self.runtime_error(exception.get_msg())

    def get_status(self, task: Any) -> None: ...

    def teardown_task(self, task: Any) -> None: ...
