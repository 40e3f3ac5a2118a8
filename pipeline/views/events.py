"""Events of a build as its reporters hear them, and a reporter that remembers how every target ended.

Order: begin, initialize; then target_started, target_process, target_progress, target_waits and target_ended, `steered`
for what a person asks, `remark` for a line of a kind of its own, round_ended after each round of these and at least
every other second; complete_run.  The main thread calls all of them; `stopping` comes from any thread at any time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.graph import Target, rooms_of, step_of
from pipeline.core.outcome import FAILED, FRESH, SKIPPED, Outcome, Wait, needs_message


class Build(NamedTuple):
    """Build to be done, as known before its first target starts."""

    targets: Sequence[Target]  # all of the graph; each comes after those it reads from
    above: Callable[[int], Iterable[int]]
    needed: Collection[int]  # asked for, or what that is made from
    todo: Collection[int]  # of these, the ones in doubt
    jobs: int
    rooms: Mapping[str, int]  # `run:room` -> its places
    receipt: Callable[[Target], Receipt | None]  # of the last time; reads a file
    is_minor: Callable[[Target], bool] = lambda _: False  # it only keeps the books
    seconds: Callable[[Target], float | None] = lambda _: None  # it took, the last time or where it was recalled from
    group: Callable[[Target], str] = lambda t: step_of(t.name)  # targets that take alike long
    rooms_of: Callable[[Target], tuple[str, ...]] = rooms_of


class Reporter:
    """Listener to a build; this one ignores everything.

    begin: remembers; effects start with `initialize`, from where on `complete_run` is sure to follow (doit's names);
    after `begin` all events are heard, also without `initialize`: another reporter's may have failed before
    stopping: nothing more will be started; called by any thread and by signal handlers, it sets a mark, no more
    target_progress: how far a target is; target_process: the id of a process that works on it
    target_waits: that a target waits for what is out
    steered: a person asked something of a run, such as to pause it
    remark: a line for people, from the follower of a run"""

    def __init__(self, outstream: Any, options: Mapping[str, Any]) -> None:
        self.outstream = outstream

    def begin(self, build: Build) -> None:
        self.build = build

    def initialize(self, tasks: Any, selected: Any) -> None: ...
    def stopping(self, why: str) -> None: ...
    def target_started(self, target: Target) -> None: ...
    def target_process(self, target: Target, pid: int) -> None: ...
    def target_progress(self, target: Target, line: str) -> None: ...
    def target_waits(self, target: Target, wait: Wait) -> None: ...
    def target_ended(self, target: Target, outcome: Outcome) -> None: ...
    def remark(self, line: str) -> None: ...
    def round_ended(self) -> None: ...
    def steered(self, run: str, request: Mapping[str, Any]) -> None: ...
    def complete_run(self) -> None: ...
    def runtime_error(self, msg: str) -> None:
        sys.stderr.write(f"{msg}\n")


class Recorder(Reporter):
    """Reporter that remembers what it hears."""

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.outcomes: dict[str, Outcome] = {}
        self.running: set[str] = set()
        self.stopped = ""

    def stopping(self, why: str) -> None:
        self.stopped = why

    def target_started(self, target: Target) -> None:
        self.running.add(target.name)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        self.running.discard(target.name)
        self.outcomes[target.name] = outcome

    def all(self) -> Iterator[tuple[str, Outcome]]:
        """Yield each target asked for or needed, by name and in the order of the plan."""
        behind: set[int] = set()  # a failure, the failed ones included
        for i in sorted(self.build.needed):
            name = self.build.targets[i].name
            above = [self.build.targets[j].name for j in self.build.above(i) if j in behind] if behind else []
            outcome = Outcome(FRESH)
            if name in self.outcomes:
                outcome = self.outcomes[name]
            elif name in self.running:
                outcome = Outcome(SKIPPED, why=f"stopped while it ran: {self.stopped}")
            elif i in self.build.todo:
                why = needs_message(above) if above else self.stopped or "the build stopped before it"
                outcome = Outcome(SKIPPED, why=why)
            if outcome.status == FAILED or above:
                behind.add(i)
            yield name, outcome
