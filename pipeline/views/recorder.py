"""How every target of a build ended, for reports written at the end: also those that were never started."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.graph import Target
from pipeline.core.outcome import FAILED, FRESH, SKIPPED, Outcome, needs
from pipeline.views.events import Build, Reporter


class Recorder(Reporter):
    """Remembers what it is told."""

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.outcomes: dict[str, Outcome] = {}
        self.running: set[str] = set()
        self.stopped = ""

    def stopping(self, why: str) -> None:
        self.stopped = why

    def started(self, target: Target) -> None:
        self.running.add(target.name)

    def ended(self, target: Target, outcome: Outcome) -> None:
        self.running.discard(target.name)
        self.outcomes[target.name] = outcome

    def all(self) -> Iterator[tuple[str, Outcome]]:
        """Each target asked for or needed, by name and in the order of the plan."""
        behind: set[int] = set()  # a failure, the failed ones included
        for i in sorted(self.build.needed):
            name = self.build.targets[i].name
            above = [self.build.targets[j].name for j in self.build.above(i) if j in behind] if behind else []
            found = self.outcomes.get(name) or self._left(i, name, above)
            if found.status == FAILED or above:
                behind.add(i)
            yield name, found

    def _left(self, i: int, name: str, above: list[str]) -> Outcome:
        if i not in self.build.todo:
            return Outcome(FRESH)
        if name in self.running:
            return Outcome(SKIPPED, why=f"stopped while it ran: {self.stopped}")
        return Outcome(SKIPPED, why=needs(above) if above else self.stopped or "the build stopped before it")
