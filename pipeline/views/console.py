"""The reporter for people: a live display on a terminal, otherwise a line for each event; at the end one of all."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, IGNORED, RECALLED, SKIPPED, Outcome
from pipeline.views.events import Build, Reporter
from pipeline.views.lines import clean, details, encodable, said, summary

# A failure that so many lines were printed after has scrolled away.
SCREENFUL = 20
PAUSE = 1.0


class Display(Protocol):
    """Where the events of a build are shown while it runs."""

    def open(self) -> None: ...
    def close(self, last: str) -> None: ...
    def stopping(self, why: str) -> None: ...
    def started(self, target: Target) -> None: ...
    def said(self, target: Target, line: str) -> None: ...
    def ended(self, target: Target, outcome: Outcome) -> None: ...


class Log:
    """A line an event, each written out at once: it is read while the build goes on."""

    def __init__(self, stream: Any, shown: Collection[str]) -> None:
        self.stream, self.shown = stream, shown
        self.lines = 0
        self.failures: dict[str, int] = {}
        self.last: dict[str, float] = {}

    def open(self) -> None: ...

    def stopping(self, why: str) -> None: ...

    def started(self, target: Target) -> None: ...

    def said(self, target: Target, line: str) -> None:
        """Not each of many: a line a second is as much as anybody reads."""
        if time.monotonic() - self.last.get(target.name, -PAUSE) >= PAUSE:
            self.last[target.name] = time.monotonic()
            self._write([f"{target.name}: {clean(line)}"])

    def ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status not in self.shown:
            return
        lines = [said(target.name, outcome), *details(outcome)]
        self.lines += len(lines)
        if outcome.status == FAILED:
            self.failures[lines[0]] = self.lines
        self._write(lines)

    def close(self, last: str) -> None:
        self._write([*(text for text, at in self.failures.items() if self.lines - at > SCREENFUL), last])

    def _write(self, lines: list[str]) -> None:
        self.stream.write("".join(f"{encodable(line, self.stream)}\n" for line in lines))
        self.stream.flush()


class Console(Reporter):
    """Keeps count, and leaves the showing to what suits the stream."""

    shown: Collection[str] = (BUILT, RECALLED, FAILED, SKIPPED, IGNORED)

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.counts: dict[str, int] = {}
        self.begun = time.monotonic()
        self.display: Display = Log(self.outstream, self.shown)

    def initialize(self, tasks: Any, selected: Any) -> None:
        if self.build.todo and is_live(self.outstream, os.environ):
            from pipeline.views.live import Live

            self.display = Live(self.outstream, self.shown, self.build)
        self.display.open()

    def stopping(self, why: str) -> None:
        self.display.stopping(why)

    def started(self, target: Target) -> None:
        self.display.started(target)

    def said(self, target: Target, line: str) -> None:
        self.display.said(target, line)

    def ended(self, target: Target, outcome: Outcome) -> None:
        self.counts[outcome.status] = self.counts.get(outcome.status, 0) + 1
        self.display.ended(target, outcome)

    def complete_run(self) -> None:
        not_run = len(self.build.todo) - sum(self.counts.values())
        counts = {**self.counts, SKIPPED: self.counts.get(SKIPPED, 0) + not_run}
        self.display.close(summary(len(self.build.needed), counts, time.monotonic() - self.begun))


class ExecutedOnly(Console):
    """doit's reporter of that name: nothing of targets that were recalled, skipped or ignored."""

    shown = (BUILT, FAILED)


def is_live(stream: Any, env: Mapping[str, str]) -> bool:
    return bool(stream.isatty()) and env.get("TERM", "dumb") not in ("", "dumb")
