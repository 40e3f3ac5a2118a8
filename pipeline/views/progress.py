"""How far a build has come: what ended, what runs, what is still to do."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.core.graph import Target, step_of
from pipeline.core.outcome import BUILT, FAILED, Outcome
from pipeline.core.rooms import rooms_of
from pipeline.views.eta import eta
from pipeline.views.events import Build

# With more targets than this only what is out of the ordinary is worth a line.
FEW = 50
LONG, OUTLIER, NOTICED = 60.0, 3.0, 1.0


class Running(NamedTuple):
    name: str
    rooms: tuple[str, ...]
    since: float
    says: str = ""


class Progress:
    """Folded from what the runner tells; `now` is any clock that only goes forward."""

    def __init__(self, build: Build, now: float) -> None:
        self.begun, self.total, self.jobs = now, len(build.todo), build.jobs
        used = {room for i in build.todo for room in rooms_of(build.targets[i])}
        self.rooms = {room: places for room, places in build.rooms.items() if room in used}
        self.counts: dict[str, int] = {}
        self.running: dict[str, Running] = {}
        self.stopping = ""
        self._eta = eta(build)
        self._judged, self._rest = now, self._eta.seconds({})

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    def started(self, target: Target, now: float) -> None:
        self.running[target.name] = Running(target.name, rooms_of(target), now)

    def said(self, target: Target, line: str) -> None:
        if target.name in self.running:
            self.running[target.name] = self.running[target.name]._replace(says=line)

    def ended(self, target: Target, outcome: Outcome) -> None:
        self.counts[outcome.status] = self.counts.get(outcome.status, 0) + 1
        self.running.pop(target.name, None)
        self._eta.end(target.name)
        if outcome.status == BUILT:
            self._eta.learn(target.name, outcome.seconds)

    def worth_a_line(self, target: Target, outcome: Outcome) -> bool:
        """Asked before `ended`: is it something to read, among so many?"""
        if self.total <= FEW or outcome.status == FAILED:
            return True
        usual = self._eta.usual(step_of(target.name))
        outlier = usual is not None and outcome.seconds > max(NOTICED, OUTLIER * usual)
        return outcome.status == BUILT and (outlier or outcome.seconds > LONG)

    def taken(self) -> dict[str, int]:
        """room -> places taken.  What has ended is told a moment late, so there may seem to be more than there are."""
        taken = dict.fromkeys(self.rooms, 0)
        for room in (room for target in self.running.values() for room in target.rooms if room in taken):
            taken[room] = min(taken[room] + 1, self.rooms[room])
        return taken

    def rest(self, now: float) -> float | None:
        """Seconds still to go.  Judged anew now and then only: that looks at every target left."""
        if now - self._judged > max(1.0, len(self._eta.left) / 5000):
            self._judged = now
            self._rest = self._eta.seconds({r.name: now - r.since for r in self.running.values()})
        return None if self._rest is None else self._rest - (now - self._judged)
