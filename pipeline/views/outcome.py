"""How every target of a build ended, for reports written at the end: also those that were never started."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.graph import Target
from pipeline.views.events import FAILED, FRESH, SKIPPED, Build, Reporter, Result, needs


class Recorder(Reporter):
    """Remembers what it is told."""

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.results: dict[str, Result] = {}
        self.running: set[str] = set()
        self.stopped = ""

    def stopping(self, why: str) -> None:
        self.stopped = why

    def started(self, target: Target) -> None:
        self.running.add(target.name)

    def ended(self, result: Result) -> None:
        self.running.discard(result.name)
        self.results[result.name] = result

    def all(self) -> Iterator[Result]:
        """A result for each target asked for or needed, in the order of the plan."""
        behind: set[int] = set()  # a failure, the failed ones included
        for i in sorted(self.build.needed):
            name = self.build.targets[i].name
            above = [self.build.targets[j].name for j in self.build.above(i) if j in behind] if behind else []
            found = self.results.get(name) or self._left(i, name, above)
            if found.status == FAILED or above:
                behind.add(i)
            yield found

    def _left(self, i: int, name: str, above: list[str]) -> Result:
        if i not in self.build.todo:
            return Result(name, FRESH)
        if name in self.running:
            return Result(name, SKIPPED, f"stopped while it ran: {self.stopped}")
        return Result(name, SKIPPED, needs(above) if above else self.stopped or "the build stopped before it")
