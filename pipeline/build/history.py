"""History of a run: a line as each build of it begins, and one as it ends, in runs/RUN/.coppice/builds.

Lines are JSON, written by whoever has the lock of the run.  A build without an end was killed, or goes on.  One that
found all as it should be leaves no line.  Of many builds the newest are kept, with their numbers, of very large ones
the slowest targets.  Nothing rests on the history: a build goes on without, and says so, where it cannot be read or
written; a line that is damaged is passed over."""

from __future__ import annotations

import json
import os
import sys
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import (
    BUILT,
    FAILED,
    FRESH,
    IGNORED,
    OUTAGE,
    OUTAGE_WORDS,
    RECALLED,
    Outcome,
    PastBuild,
    TargetTime,
)
from pipeline.core.text import one_line
from pipeline.store import noop
from pipeline.store.files import append_lines, open_plain, whole_lines, write_whole
from pipeline.store.records import Record, is_time, record_of
from pipeline.views.events import Build, Reporter

MOST_TARGETS, WHY_WIDTH = 2000, 100
# Builds that are kept: some weeks of a few a day, and 12 MB at most.  So many more may be there before the oldest go.
KEPT_BUILDS, SLACK = 100, 25
MOST_BUILDS = 10**9  # a larger number is none of ours
# A target that starts so long after all that it reads is there was waiting; one that ended so shortly before it started
# gave it the place.  Times are rounded to a thousandth.
LATE, HANDED_ON, ROUNDING = 0.05, 0.25, 0.002


def history_path(run: str) -> str:
    return f"{noop.folder(run)}/builds"


def past_builds(run: str) -> list[PastBuild]:
    """All builds of a run in their order; a torn line was never written."""
    found: dict[int, PastBuild] = {}
    for line in _lines(history_path(run)):
        record = record_of(line)
        number = _number(record)
        if number and record.get("event") == "begin" and is_time(record.get("at")):
            found[number] = PastBuild(number, record["at"])
        elif number in found:
            found[number] = found[number]._replace(**_end_of(record))
    return [*found.values()]


def _end_of(record: Record) -> dict[str, Any]:
    """How a build ended, by its line; empty where that is damaged, since anybody may write there."""
    try:
        targets, places = [TargetTime(*row) for row in record["targets"]], record.get("places", {})
        numbers = [record["seconds"], record["saved"], *record["counts"].values(), *places.values()]
        numbers += [number for each in targets for number in (each.start, each.seconds)]
        words = [record["stopped"], *record["critical"], *(word for each in targets for word in each[:2])]
    except (AttributeError, KeyError, TypeError):
        return {}
    if not all(map(is_time, numbers)) or not all(isinstance(word, str) for word in words):
        return {}
    fields = {name: record[name] for name in ("seconds", "stopped", "counts", "saved", "critical")}
    return {**fields, "targets": targets, "places": places}


def _lines(path: str) -> Iterable[bytes]:
    if not os.path.exists(path):
        return []
    with open_plain(path) as file:
        return [*whole_lines(file)]


def _number(record: Record) -> int:
    """The number of the build that a line is about; 0 of a line that is none."""
    number = record.get("build")
    return number if isinstance(number, int) and 0 < number < MOST_BUILDS else 0


class HistoryReporter(Reporter):
    """Reporter that writes the history of one run.  `saved`: by run the seconds that recall has saved in this build."""

    def __init__(self, run: str, saved: Mapping[str, float]) -> None:
        self._run, self._saved, self._stopped = run, saved, ""
        self._is_begun, self._number = False, 0  # the number only once its line is written
        self._last_end = 0.0  # of a target of this run
        self._size = 0  # of the history before this build
        self._counts: dict[str, int] = {}
        self._ended: dict[str, TargetTime] = {}
        self._fresh: set[str] = set()

    def begin(self, build: Build) -> None:
        super().begin(build)
        self._begun = time.time()

    def stopping(self, why: str) -> None:
        self._stopped = why

    def target_started(self, target: Target) -> None:
        if target.run == self._run and not self._is_begun:
            self._is_begun = True
            with self._guarded():
                number = 1 + self._last_number()
                self._append({"build": number, "event": "begin", "at": round(self._begun, 3)})
                self._number = number

    def _last_number(self) -> int:
        """The number of the last build; drops the oldest where they are too many."""
        path = history_path(self._run)
        lines = [*_lines(path)]
        numbers = [_number(record_of(line)) if b'"event": "begin"' in line else 0 for line in lines]
        last = max(numbers, default=0)
        if sum(map(bool, numbers)) >= KEPT_BUILDS + SLACK:
            first = sorted(numbers)[1 - KEPT_BUILDS]  # with the build that begins now
            kept = (line for line in lines if _number(record_of(line)) >= first)
            write_whole(path, b"".join(kept), durable=False)
        self._size = os.path.getsize(path) if os.path.exists(path) else 0
        return last

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if target.run != self._run:
            return
        self._last_end = time.time()
        status = OUTAGE if outcome.outage else outcome.status
        self._counts[status] = self._counts.get(status, 0) + 1
        if outcome.outage and not self._stopped:
            self._stopped = f"{OUTAGE_WORDS[outcome.outage]}: {one_line(outcome.why, WHY_WIDTH)}"
        name = target.name.partition(":")[2]
        if outcome.status == FRESH:
            self._fresh.add(name)
        if outcome.status in (BUILT, FAILED, RECALLED):
            start = max(0.0, outcome.start - self._begun) if outcome.end else 0.0
            self._ended[name] = TargetTime(name, status, round(start, 3), round(outcome.seconds, 3))

    def complete_run(self) -> None:
        if self._number and not self._stopped and self._counts.keys() <= {FRESH, IGNORED}:
            with self._guarded():  # what was in doubt is as it should be
                os.truncate(history_path(self._run), self._size)
        elif self._number:
            whole = [i for i in self.build.needed if self.build.targets[i].run == self._run]
            if found := sum(i not in self.build.todo for i in whole):  # nothing speaks against them: nobody looked
                self._counts[FRESH] = self._counts.get(FRESH, 0) + found
            critical, places = self._critical_path()
            slowest = sorted(self._ended.values(), key=lambda each: each.seconds, reverse=True)
            shown = [each for n, each in enumerate(slowest) if n < MOST_TARGETS or each.name in critical]
            is_alone = len(whole) == len(self.build.needed)  # what others took longer is no time of this run
            ended = time.time() if is_alone or self._stopped else self._last_end
            end = {"seconds": round(ended - self._begun, 3), "stopped": self._stopped, "counts": self._counts}
            end |= {"saved": round(self._saved.get(self._run, 0.0), 3), "critical": [*critical], "places": places}
            with self._guarded():
                self._append({"build": self._number, "event": "end", **end, "targets": shown})

    def _critical_path(self) -> tuple[Mapping[str, TargetTime], Mapping[str, float]]:
        """The last target to end, what it waited for, what that waited for, and so on; first things first.

        A target waited for the last to end of those that it reads from; or, if it started only later, for the one whose
        end gave it a place, which has the seconds of that wait."""
        own = {t.name.partition(":")[2]: i for i, t in enumerate(self.build.targets) if t.run == self._run}
        by_end = sorted(self._ended.values(), key=_end)
        path, places = {each.name: each for each in by_end[-1:]}, {}
        last = by_end[-1] if by_end else None
        while last and len(path) < MOST_TARGETS:
            above = max(self._ended_above(own[last.name], {*path}), key=_end, default=None)
            waited = last.start - (_end(above) if above else 0.0)
            if waited > LATE and (giver := self._place_giver(last, waited, by_end, own, path)):
                places[last.name] = round(waited, 3)
                above = giver
            if last := above:
                path[last.name] = last
        return dict([*path.items()][::-1]), places

    def _ended_above(self, i: int, seen: set[str]) -> Iterator[TargetTime]:
        """Targets that were made for this one in this build; what was found fresh had waited for those above it."""
        todo = [i]
        while todo:
            for j in self.build.above(todo.pop()):
                name = self.build.targets[j].name.partition(":")[2]
                if self.build.targets[j].run != self._run or name in seen:
                    continue
                seen.add(name)
                if name in self._ended:
                    yield self._ended[name]
                elif name in self._fresh:
                    todo.append(j)

    def _place_giver(
        self,
        late: TargetTime,
        waited: float,
        by_end: Sequence[TargetTime],
        own: Mapping[str, int],
        path: Mapping[str, TargetTime],
    ) -> TargetTime | None:
        """The target that ended while this one waited, just before it started; of the same rooms if there is one."""
        last = bisect_right(by_end, late.start + ROUNDING, key=_end)
        first = bisect_right(by_end, late.start - min(HANDED_ON, waited), key=_end)
        found = [each for each in by_end[first:last] if each.name not in path and each.start <= late.start]
        rooms = {*self.build.rooms_of(self.build.targets[own[late.name]])}
        near = [each for each in found if rooms.intersection(self.build.rooms_of(self.build.targets[own[each.name]]))]
        return next(reversed(near or found), None)

    def _append(self, record: Mapping[str, Any]) -> None:
        append_lines(history_path(self._run), json.dumps(record).encode() + b"\n")

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # such as of a full disk, which also ends what the build is for, with a better message
            path = history_path(self._run)
            sys.stderr.write(f"{path}: {error.strerror}; `coppice log` will not know how this build went\n")


def _end(each: TargetTime) -> float:
    return each.start + each.seconds
