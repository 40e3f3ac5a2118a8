"""The reporters of `coppice run`, by name, and how several of them listen to one build."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome
from pipeline.views.console import Console, ExecutedOnly
from pipeline.views.events import Build, Reporter
from pipeline.views.json_report import JsonReporter

REPORTERS: dict[str, type[Reporter]] = {
    "console": Console, "executed-only": ExecutedOnly, "json": JsonReporter, "zero": Reporter,
}  # fmt: skip


def junit(path: str) -> Reporter:
    from pipeline.views.junit import JUnit

    return JUnit(path)


class Reporters(Reporter):
    """Tells every event to all."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = reporters

    def begin(self, build: Build) -> None:
        for reporter in self._reporters:
            reporter.begin(build)

    def stopping(self, why: str) -> None:
        for reporter in self._reporters:
            reporter.stopping(why)

    def started(self, target: Target) -> None:
        for reporter in self._reporters:
            reporter.started(target)

    def said(self, target: Target, line: str) -> None:
        for reporter in self._reporters:
            reporter.said(target, line)

    def ended(self, target: Target, outcome: Outcome) -> None:
        for reporter in self._reporters:
            reporter.ended(target, outcome)

    def initialize(self, tasks: Any, selected: Any) -> None:
        for reporter in self._reporters:
            reporter.initialize(tasks, selected)

    def complete_run(self) -> None:
        """Every one gets to its end, also when another one could not write."""
        with ExitStack() as ends:
            for reporter in self._reporters:
                ends.callback(reporter.complete_run)
