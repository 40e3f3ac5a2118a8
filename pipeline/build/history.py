"""History of a run: a line as each build of it begins, and one as it ends, in runs/RUN/.coppice/builds.

Lines are JSON, written by whoever has the lock of the run.  A build without an end was killed.  One that found all as
it should be leaves no line.  Of many builds the newest are kept, with their numbers, of very large ones the slowest
targets.  Nothing rests on the history: a build goes on without, and says so, where it cannot be written."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, Outcome
from pipeline.store import noop
from pipeline.store.files import append_lines, whole_lines, write_whole
from pipeline.views.events import Build, Reporter

MOST_TARGETS = 2000
# Builds that are kept: some weeks of a few a day, and 12 MB at most.  So many more may be there before the oldest go.
KEPT_BUILDS, SLACK = 100, 25


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


def _number(line: bytes) -> int:
    """The number of the build that a line is about; 0 of a line that is none."""
    try:
        return int(json.loads(line)["build"])
    except (ValueError, KeyError, TypeError):
        return 0


class HistoryReporter(Reporter):
    """Reporter that writes the history of one run."""

    def __init__(self, run: str) -> None:
        self._run, self._stopped, self._number = run, "", 0
        self._size = 0  # of the history before this build
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
            self._number = 1 + self._last_number()
            self._append({"build": self._number, "event": "begin", "at": round(self._begun, 3)})

    def _last_number(self) -> int:
        """The number of the last build; drops the oldest where they are too many."""
        path = history_path(self._run)
        lines = [*_lines(path)]
        numbers = [_number(line) if b'"event": "begin"' in line else 0 for line in lines]
        last = max(numbers, default=0)
        if sum(map(bool, numbers)) >= KEPT_BUILDS + SLACK:
            first = sorted(numbers)[1 - KEPT_BUILDS]  # with the build that begins now
            with self._writing():
                write_whole(path, b"".join(line for line in lines if _number(line) >= first), durable=False)
        self._size = os.path.getsize(path) if os.path.exists(path) else 0
        return last

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
        if self._number and not self._stopped and self._counts.keys() <= {FRESH, IGNORED}:
            with self._writing():  # what was in doubt is as it should be
                os.truncate(history_path(self._run), self._size)
        elif self._number:
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
        with self._writing():
            append_lines(history_path(self._run), json.dumps(record).encode() + b"\n")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # such as of a full disk, which also ends what the build is for, with a better message
            path = history_path(self._run)
            sys.stderr.write(f"{path}: {error.strerror}; `coppice log` will not know how this build went\n")


def _end(each: TargetTime) -> float:
    return each.start + each.seconds
