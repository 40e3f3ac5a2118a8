"""The reporters of `coppice run`: console, executed-only, json, zero; and how several listen to one build.

The console shows a live display on a terminal, otherwise a line for each event; at the end one line of totals.  JSON is
one document for the whole build: the shape of doit's own reporter, with what we know besides."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, OUTAGE, RECALLED, SKIPPED, Outcome, Wait
from pipeline.views.events import Build, Recorder, Reporter
from pipeline.views.lines import (
    clean_line,
    encodable,
    failure_lines,
    log_tail,
    outcome_line,
    steering_line,
    summary_line,
)

# What doit's reporter calls it.
DOIT_RESULTS = {
    BUILT: "success", RECALLED: "success", FRESH: "up-to-date", FAILED: "fail", IGNORED: "ignore", SKIPPED: None,
}  # fmt: skip


class JsonReporter(Recorder):
    """Reporter of one JSON document; whatever else would be printed during the build becomes part of it."""

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.printed, self.problems = StringIO(), StringIO()
        self._redirected = ExitStack()

    def initialize(self, tasks: Any, selected: Any) -> None:
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
        "outage": outcome.outage or None,
        "why": outcome.why,
        "log": outcome.log,
    }


# A failure that so many lines were printed after has scrolled away.
SCREENFUL = 20
PAUSE = 1.0
REPORTED = (BUILT, RECALLED, FAILED, SKIPPED, IGNORED)


class Console(Reporter):
    """Reporter with a line an event, each written out at once: it is read while the build goes on."""

    def __init__(self, outstream: Any, options: Mapping[str, Any], shown: Collection[str] = REPORTED) -> None:
        super().__init__(outstream, options)
        self.shown = shown
        self._verbose = bool(options.get("verbose"))
        self._counts: dict[str, int] = {}
        self._lines = 0
        self._failures: dict[str, int] = {}  # their lines, and how many were written with them
        self._told: dict[str, float] = {}  # when of a target

    def begin(self, build: Build) -> None:
        super().begin(build)
        self._begun = time.monotonic()

    def target_progress(self, target: Target, line: str) -> None:
        """Write progress, at most a line a second: nobody reads more."""
        if time.monotonic() - self._told.get(target.name, -PAUSE) >= PAUSE:
            self._told[target.name] = time.monotonic()
            self.write([f"{target.name}: {clean_line(line)}"])

    def steered(self, run: str, request: Mapping[str, Any]) -> None:
        self.write([steering_line(run, request)])

    def target_waits(self, target: Target, wait: Wait) -> None:
        self.write([f"{target.name}: waits: {clean_line(wait.line)}"])

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        word = OUTAGE if outcome.outage else outcome.status
        self._counts[word] = self._counts.get(word, 0) + 1
        if outcome.status in self.shown and (self._verbose or not self._is_minor(target, outcome)):
            self.write_outcome(target, outcome)

    def remark(self, line: str) -> None:
        self._lines += 1
        self.write([clean_line(line)])

    def _is_minor(self, target: Target, outcome: Outcome) -> bool:
        return outcome.status in (BUILT, RECALLED) and outcome.attempts < 2 and self.build.is_minor(target)

    def write_outcome(self, target: Target, outcome: Outcome) -> None:
        lines = [outcome_line(target.name, outcome), *failure_lines(outcome)]
        self._lines += len(lines)
        if outcome.status == FAILED:
            self._failures[lines[0]] = self._lines
        self.write(lines)

    def complete_run(self) -> None:
        not_run = len(self.build.todo) - sum(self._counts.values())
        counts = {**self._counts, SKIPPED: self._counts.get(SKIPPED, 0) + not_run}
        self.close(summary_line(len(self.build.needed), counts, time.monotonic() - self._begun))

    def close(self, last: str) -> None:
        self.write([*(text for text, at in self._failures.items() if self._lines - at > SCREENFUL), last])

    def write(self, lines: list[str]) -> None:
        self.outstream.write("".join(f"{encodable(line, self.outstream)}\n" for line in lines))
        self.outstream.flush()


def console(stream: Any, options: Mapping[str, Any], shown: Collection[str] = REPORTED) -> Console:
    """Make the reporter for people: on a terminal a live display."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return Console(stream, options, shown)
    from pipeline.views.live import LiveConsole

    return LiveConsole(stream, options, shown)


# `executed-only`, of doit's name: nothing of targets that were recalled, skipped or ignored.
REPORTERS: dict[str, Callable[[Any, Mapping[str, Any]], Reporter]] = {
    "console": console, "executed-only": partial(console, shown=(BUILT, FAILED)), "json": JsonReporter,
    "zero": Reporter,
}  # fmt: skip


def _to_each(event: str) -> Callable[..., None]:
    def pass_on(group: ReporterGroup, *details: Any) -> None:
        for reporter in group._reporters:
            getattr(reporter, event)(*details)

    return pass_on


class ReporterGroup(Reporter):
    """Reporter that passes every event to several."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = reporters

    begin, initialize, stopping = _to_each("begin"), _to_each("initialize"), _to_each("stopping")
    target_started, target_ended = _to_each("target_started"), _to_each("target_ended")
    target_progress, target_process = _to_each("target_progress"), _to_each("target_process")
    target_waits, steered = _to_each("target_waits"), _to_each("steered")
    remark, round_ended = _to_each("remark"), _to_each("round_ended")

    def complete_run(self) -> None:
        """End all reporters, also when one of them could not write."""
        with ExitStack() as ends:
            for reporter in self._reporters:
                ends.callback(reporter.complete_run)
