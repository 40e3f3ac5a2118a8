"""Activity of a build for other processes to read: what it works on, since when, and how long the rest will take.

It stands in runs/RUN/.coppice/activity, whole at each moment, and is written by the build while something changes, at
most once each PERIOD; a build that has nothing to do writes none.  States of the file:

    none    -> current   the build has started a target
    current -> none      the build ends
    current -> left over the build was killed: nobody has the lock of the run any more, or another process has

Who reads it trusts the lock: what was left over is no activity, but tells what was cut off.  Nothing rests on it: a
build goes on without, and says so, where it cannot be written."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome, PastBuild, Wait
from pipeline.core.projection import Moment, RunningTarget
from pipeline.core.text import one_line
from pipeline.machine.lock import is_locked, lock_path, read_holder, unix_time
from pipeline.store import noop
from pipeline.store.files import read_bytes, write_whole
from pipeline.store.records import is_time, record_of
from pipeline.store.steering import SteeringLog
from pipeline.views.events import Build, Reporter
from pipeline.views.lines import clean_line
from pipeline.views.progress import Progress

PERIOD = 0.5
SOON = 1.0  # most builds end sooner; by then an estimate is made anew, without what has ended
MOST_RUNNING, LINE_WIDTH = 500, 200


def activity_path(run: str) -> str:
    return f"{noop.folder(run)}/activity"


class ActivityReporter(Reporter):
    """Reporter that writes the activity of a build into each of its runs."""

    def __init__(self, runs: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._runs, self._clock = [*runs], clock
        self._running: dict[str, RunningTarget] = {}
        self._started: dict[str, tuple[Target, float]] = {}  # by the clock of the estimate
        self._ended: list[tuple[Target, Outcome]] = []  # before there was an estimate
        self._progress: Progress | None = None
        self._changed, self._writable, self._written = False, True, -PERIOD

    def begin(self, build: Build) -> None:
        super().begin(build)
        self._begun = self._clock()

    def initialize(self, tasks: Any, selected: Any) -> None:
        self._remove()

    def target_started(self, target: Target) -> None:
        self._running[target.name] = RunningTarget(target.name, round(time.time(), 3))
        self._started[target.name] = target, self._clock()
        if self._progress:
            self._progress.target_started(target, self._clock())
        self._changed = True

    def target_progress(self, target: Target, line: str) -> None:
        if target.name in self._running:
            says = one_line(clean_line(line), LINE_WIDTH)
            self._running[target.name] = self._running[target.name]._replace(says=says)
            self._changed = True

    def target_waits(self, target: Target, wait: Wait) -> None:
        self.target_progress(target, f"waits: {wait.line}")

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        self._running.pop(target.name, None)
        self._started.pop(target.name, None)
        if self._progress:
            self._progress.target_ended(target, outcome)
        else:
            self._ended.append((target, outcome))
        self._changed = True

    def round_ended(self) -> None:
        now = self._clock()
        if self._changed and self._writable and now - self._written >= PERIOD:
            self._changed, self._written = False, now
            self._write(now)

    def _write(self, now: float) -> None:
        left = self._seconds_left(now)
        head = {"pid": os.getpid(), "at": round(time.time(), 3), "left": None if left is None else round(left, 1)}
        for run in self._runs:
            own = [each for name, each in self._running.items() if name.startswith(f"{run}:")][:MOST_RUNNING]
            try:
                write_whole(activity_path(run), json.dumps({**head, "running": own}).encode(), durable=False)
            except OSError as error:  # such as of a full disk, which the build tells of with a better message
                self._writable = False
                what = "`coppice watch` and `coppice dashboard` will not know what this build works on"
                sys.stderr.write(f"{activity_path(run)}: {error.strerror}; {what}\n")
                return

    def _seconds_left(self, now: float) -> float | None:
        """Seconds until the build ends; unknown at first: estimating costs more than a short build takes."""
        if self._progress is None:
            if now - self._begun <= SOON:
                return None
            self._progress = Progress(self.build, self._begun)
            for target, since in self._started.values():
                self._progress.target_started(target, since)
            for target, outcome in self._ended:
                self._progress.target_ended(target, outcome)
            self._ended.clear()
        left = self._progress.rest(now)
        return None if left is None else max(0.0, left)

    def complete_run(self) -> None:
        self._remove()

    def _remove(self) -> None:
        for run in self._runs:
            with suppress(FileNotFoundError):
                os.unlink(activity_path(run))


def moment_of(run: str, steering: SteeringLog, builds: Sequence[PastBuild] = ()) -> Moment:
    """The moment that a run is in: does a build have its lock, on what does it work, has a person paused the run.

    `builds`: those that are remembered, which only a projection needs."""
    now = time.time()
    locked = is_locked(run)
    written, holder = _read_activity(run), read_holder(run)
    is_own = holder is not None and written.get("pid") == holder.pid
    activity = written if locked and is_own else {}
    left, pause = activity.get("left"), steering.pause()
    passed = now - activity["at"] if activity else 0.0
    rest = None if left is None or pause else max(0.0, left - passed)  # nobody knows when it may go on
    running = tuple(RunningTarget(*row) for row in activity.get("running", ()))
    moment = Moment(bool(locked), pause, now, running, rest, builds, bool(activity))
    if locked is None:
        return moment._replace(unasked=lock_path(run))
    if locked or not written:
        return moment
    heard = max(written["at"], unix_time(holder.last_heartbeat_at) if holder else 0.0)
    return moment._replace(cut_off=tuple(RunningTarget(*row) for row in written["running"]), heard=heard)


def _read_activity(run: str) -> Mapping[str, Any]:
    """Read what a build has written; empty where that is nothing, or damaged, as anybody may do."""
    try:
        record = record_of(read_bytes(activity_path(run)))
    except OSError:
        return {}
    numbers = [record.get("at"), record.get("left") or 0.0]
    return record if all(map(is_time, numbers)) and _are_rows(record.get("running")) else {}


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, list) and all(map(_is_row, rows))


def _is_row(row: Sequence[Any]) -> bool:
    if not isinstance(row, list) or len(row) != len(RunningTarget._fields):
        return False
    return is_time(row[1]) and isinstance(row[0], str) and isinstance(row[2], str)
