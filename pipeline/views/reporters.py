"""The reporters of `coppice run`: console, executed-only, json, zero; and how several listen to one build.

The console shows a live display on a terminal, otherwise a line for each event; at the end one line of totals.  JSON is
one document for the whole build: the shape of doit's own reporter, with what we know besides."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from typing import Any, Protocol

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome
from pipeline.views.events import Build, Recorder, Reporter
from pipeline.views.lines import clean_line, encodable, failure_lines, log_tail, outcome_line, summary_line

# What doit's reporter calls it.
DOIT_RESULTS = {
    BUILT: "success", RECALLED: "success", FRESH: "up-to-date", FAILED: "fail", IGNORED: "ignore", SKIPPED: None,
}  # fmt: skip


class JsonReporter(Recorder):
    """Reporter of one JSON document; whatever else would be printed during the build becomes part of it."""

    def initialize(self, tasks: Any, selected: Any) -> None:
        self.printed, self.problems = StringIO(), StringIO()
        self._redirected = ExitStack()
        self._redirected.enter_context(redirect_stdout(self.printed))
        self._redirected.enter_context(redirect_stderr(self.problems))

    def complete_run(self) -> None:
        self._redirected.close()
        document = {
            "tasks": [task_record(name, outcome) for name, outcome in self.all()],
            "out": self.printed.getvalue(),
            "err": self.problems.getvalue(),
            "stopped": self.stopped,
        }
        json.dump(document, self.outstream)
        self.outstream.write("\n")
        self.outstream.flush()


def task_record(name: str, outcome: Outcome) -> dict[str, Any]:
    """Record of a target: doit's fields, then ours.  `out` is the end of the log of a failure; `log` is its path."""
    ran = bool(outcome.end)
    return {
        "name": name,
        "result": DOIT_RESULTS[outcome.status],
        "out": "\n".join(log_tail(outcome.log)) if outcome.status == FAILED and outcome.log else "",
        "err": "",
        "error": outcome.why or None,
        "started": datetime.fromtimestamp(outcome.start, UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if ran else None,
        "elapsed": outcome.seconds if ran else None,
        "status": outcome.status,
        "start": outcome.start if ran else None,
        "end": outcome.end if ran else None,
        "seconds": outcome.seconds if ran else None,
        "attempts": outcome.attempts,
        "exit": outcome.exit if ran or outcome.status == FAILED else None,
        "why": outcome.why,
        "log": outcome.log,
    }


# A failure that so many lines were printed after has scrolled away.
SCREENFUL = 20
PAUSE = 1.0


class Display(Protocol):
    """Display of the events of a build while it runs."""

    def open(self) -> None: ...
    def close(self, last: str) -> None: ...
    def stopping(self, why: str) -> None: ...
    def target_started(self, target: Target) -> None: ...
    def target_progress(self, target: Target, line: str) -> None: ...
    def target_ended(self, target: Target, outcome: Outcome) -> None: ...


class LogDisplay:
    """Display with a line an event, each written out at once: it is read while the build goes on."""

    def __init__(self, stream: Any, shown: Collection[str]) -> None:
        self.stream, self.shown = stream, shown
        self.lines = 0
        self.failures: dict[str, int] = {}
        self.last: dict[str, float] = {}

    def open(self) -> None: ...

    def stopping(self, why: str) -> None: ...

    def target_started(self, target: Target) -> None: ...

    def target_progress(self, target: Target, line: str) -> None:
        """Write progress, at most a line a second: nobody reads more."""
        if time.monotonic() - self.last.get(target.name, -PAUSE) >= PAUSE:
            self.last[target.name] = time.monotonic()
            self._write([f"{target.name}: {clean_line(line)}"])

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status not in self.shown:
            return
        lines = [outcome_line(target.name, outcome), *failure_lines(outcome)]
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
    """Reporter that counts, and leaves the display to what suits the stream."""

    shown: Collection[str] = (BUILT, RECALLED, FAILED, SKIPPED, IGNORED)

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.counts: dict[str, int] = {}
        self.begun = time.monotonic()
        self.display: Display = LogDisplay(self.outstream, self.shown)

    def initialize(self, tasks: Any, selected: Any) -> None:
        if self.build.todo and is_live(self.outstream, os.environ):
            from pipeline.views.live import LiveDisplay

            self.display = LiveDisplay(self.outstream, self.shown, self.build)
        self.display.open()

    def stopping(self, why: str) -> None:
        self.display.stopping(why)

    def target_started(self, target: Target) -> None:
        self.display.target_started(target)

    def target_progress(self, target: Target, line: str) -> None:
        self.display.target_progress(target, line)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        self.counts[outcome.status] = self.counts.get(outcome.status, 0) + 1
        self.display.target_ended(target, outcome)

    def complete_run(self) -> None:
        not_run = len(self.build.todo) - sum(self.counts.values())
        counts = {**self.counts, SKIPPED: self.counts.get(SKIPPED, 0) + not_run}
        self.display.close(summary_line(len(self.build.needed), counts, time.monotonic() - self.begun))


class ExecutedOnly(Console):
    """Reporter of doit's name: nothing of targets that were recalled, skipped or ignored."""

    shown = (BUILT, FAILED)


def is_live(stream: Any, env: Mapping[str, str]) -> bool:
    return bool(stream.isatty()) and env.get("TERM", "dumb") not in ("", "dumb")


REPORTERS: dict[str, type[Reporter]] = {
    "console": Console, "executed-only": ExecutedOnly, "json": JsonReporter, "zero": Reporter,
}  # fmt: skip


class ReporterGroup(Reporter):
    """Reporter that passes every event to several."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = reporters

    def begin(self, build: Build) -> None:
        for reporter in self._reporters:
            reporter.begin(build)

    def stopping(self, why: str) -> None:
        for reporter in self._reporters:
            reporter.stopping(why)

    def target_started(self, target: Target) -> None:
        for reporter in self._reporters:
            reporter.target_started(target)

    def target_progress(self, target: Target, line: str) -> None:
        for reporter in self._reporters:
            reporter.target_progress(target, line)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        for reporter in self._reporters:
            reporter.target_ended(target, outcome)

    def initialize(self, tasks: Any, selected: Any) -> None:
        for reporter in self._reporters:
            reporter.initialize(tasks, selected)

    def complete_run(self) -> None:
        """End all reporters, also when one of them could not write."""
        with ExitStack() as ends:
            for reporter in self._reporters:
                ends.callback(reporter.complete_run)
