"""History of a run: a line as each build of it begins, and one as it ends, in runs/RUN/.coppice/builds.

Lines are JSON and only ever appended, by whoever has the lock of the run.  A build without an end was killed.  One that
looked at nothing leaves no line.  Of very large builds the slowest targets are kept.  Nothing rests on the history: a
build goes on without, and says so, where it cannot be written."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, RECALLED, Outcome
from pipeline.store import noop
from pipeline.store.files import append_lines, whole_lines
from pipeline.views.events import Build, Reporter

MOST_TARGETS = 2000


class TargetTime(NamedTuple):
    """A target of a past build: how it ended, when it began, and how many seconds it took."""

    name: str
    status: str
    start: float
    seconds: float


class PastBuild(NamedTuple):
    """A build of a run; `seconds` is None of one that was killed.  `critical`: each waited for the one before it."""

    number: int
    at: float
    seconds: float | None = None
    stopped: str = ""
    counts: Mapping[str, int] = {}
    saved: float = 0.0
    critical: Sequence[str] = ()
    targets: Sequence[TargetTime] = ()


def history_path(run: str) -> str:
    return f"{noop.folder(run)}/builds"


def past_builds(run: str) -> list[PastBuild]:
    """All builds of a run in their order; a torn line was never written."""
    found: dict[int, PastBuild] = {}
    for line in _lines(history_path(run)):
        try:
            record = json.loads(line)
            number = int(record["build"])
            if record["event"] == "begin":
                found[number] = PastBuild(number, float(record["at"]))
            elif number in found:
                fields = {name: record[name] for name in ("seconds", "stopped", "counts", "saved", "critical")}
                targets = [TargetTime(*row) for row in record["targets"]]
                found[number] = found[number]._replace(**fields, targets=targets)
        except (ValueError, KeyError, TypeError):
            continue
    return [*found.values()]


def _lines(path: str) -> Iterable[bytes]:
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return [*whole_lines(file)]


class HistoryReporter(Reporter):
    """Reporter that writes the history of one run."""

    def __init__(self, run: str) -> None:
        self._run, self._stopped, self._number = run, "", 0
        self._counts: dict[str, int] = {}
        self._saved = 0.0
        self._ended: dict[str, TargetTime] = {}

    def begin(self, build: Build) -> None:
        super().begin(build)
        self._begun = time.time()

    def stopping(self, why: str) -> None:
        self._stopped = why

    def target_started(self, target: Target) -> None:
        if target.run == self._run and not self._number:
            self._number = 1 + sum(b'"event": "begin"' in line for line in _lines(history_path(self._run)))
            self._append({"build": self._number, "event": "begin", "at": round(self._begun, 3)})

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if target.run != self._run:
            return
        self._counts[outcome.status] = self._counts.get(outcome.status, 0) + 1
        if outcome.status in (FRESH, RECALLED):
            self._saved += outcome.saved
        if outcome.status in (BUILT, FAILED, RECALLED):
            start = max(0.0, outcome.start - self._begun) if outcome.end else 0.0
            name = target.name.partition(":")[2]
            self._ended[name] = TargetTime(name, outcome.status, round(start, 3), round(outcome.seconds, 3))

    def complete_run(self) -> None:
        if self._number:
            slowest = sorted(self._ended.values(), key=lambda each: each.seconds, reverse=True)[:MOST_TARGETS]
            end = {"seconds": round(time.time() - self._begun, 3), "stopped": self._stopped, "counts": self._counts}
            end |= {"saved": round(self._saved, 3), "critical": self._critical_path(), "targets": slowest}
            self._append({"build": self._number, "event": "end", **end})

    def _critical_path(self) -> list[str]:
        """The last target to end, the last of those that it read from, and so on; first things first."""
        if not self._ended:
            return []
        own = {t.name.partition(":")[2]: i for i, t in enumerate(self.build.targets) if t.run == self._run}
        path = [max(self._ended.values(), key=_end).name]
        while above := [
            self._ended[name]
            for i in self.build.above(own[path[-1]])
            if self.build.targets[i].run == self._run
            and (name := self.build.targets[i].name.partition(":")[2]) in self._ended
        ]:
            path.append(max(above, key=_end).name)
        return path[::-1]

    def _append(self, record: Mapping[str, Any]) -> None:
        path = history_path(self._run)
        try:
            append_lines(path, json.dumps(record).encode() + b"\n")
        except OSError as error:  # such as of a full disk, which also ends what the build is for, with a better message
            sys.stderr.write(f"{path}: {error.strerror}; `coppice log` will not know how this build went\n")


def _end(each: TargetTime) -> float:
    return each.start + each.seconds
