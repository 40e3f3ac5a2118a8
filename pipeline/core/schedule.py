"""Decide which target may start: all it needs is done, and its rooms have a place.

States of a target here:

    waiting  -> ready     the last one above it was finished well
    waiting  -> blocked   the last one above it was finished, and one of them failed or was blocked
    ready    -> started   `start`: its places in rooms are taken
    started  -> left      `release`: its places are free
    left     -> finished  `finish`, well or not
    left     -> ready     `make_ready`
    left     -> started   `take_back`, if there are places for it again

A waiting or ready target holds no place.

A target in the room ALONE runs beside no other.  As soon as one is ready, nothing else starts: it waits until what runs
has left, so that it cannot be overtaken for ever, and those that are ready by then go first, one after the other.  Nor
are places taken back then, as long as what is ready will be started at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from pipeline.core.graph import ALONE

BlockedTarget = tuple[int, tuple[int, ...]]  # a target that cannot run, those directly above it that are to blame


class Schedule:
    """Pure bookkeeping: tell it what ended, ask it what may start.  A waiting target never holds a place in a room."""

    def __init__(
        self, above: Mapping[int, Iterable[int]], rooms_of: Mapping[int, tuple[str, ...]], rooms: Mapping[str, int]
    ) -> None:
        self.waits: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.rooms_of = rooms_of
        self.free = {**rooms, ALONE: 1}
        self.running = 0  # started, and not left
        self.ready: dict[tuple[str, ...], list[int]] = {}
        self.failed_above: dict[int, list[int]] = {}
        for i, needs in above.items():
            inside = [j for j in needs if j in above]
            self.waits[i] = len(inside)
            for j in inside:
                self.readers.setdefault(j, []).append(i)
            if not inside:
                self.make_ready(i)

    def start(self) -> int | None:
        """The next target to start, its places in rooms taken; None when none may start now."""
        alone = self._ready_alone()
        if not self.free[ALONE] or (alone and self.running):
            return None
        best: tuple[str, ...] | None = None
        for rooms in alone or self.ready:
            queue = self.ready[rooms]
            if queue and self._has_place(rooms) and (best is None or queue[0] < self.ready[best][0]):
                best = rooms
        if best is None:
            return None
        self._add_places(best, -1)
        self.running += 1
        return heappop(self.ready[best])

    def take_back(self, index: int, starting: bool = True, forced: bool = False) -> bool:
        """Take the places again that a target has released; False if it must wait.

        `starting`: what is ready will be started; otherwise nothing waits for it.  `forced`: it need not wait."""
        rooms = self.rooms_of.get(index, ())
        others = self.running > 0 if ALONE in rooms else starting and self._ready_alone() != []
        if not forced and (others or not self.free[ALONE] or not self._has_place(rooms)):
            return False
        self._add_places(rooms, -1)
        self.running += 1
        return True

    def _ready_alone(self) -> list[tuple[str, ...]]:
        return [rooms for rooms, queue in self.ready.items() if queue and ALONE in rooms]

    def _has_place(self, rooms: tuple[str, ...]) -> bool:
        return all(self.free.get(room, 1) > 0 for room in rooms)

    def _add_places(self, rooms: tuple[str, ...], number: int) -> None:
        for room in rooms:
            if room in self.free:
                self.free[room] += number

    def ready_count(self) -> int:
        """Count the targets that could start if there were threads and places enough."""
        return sum(map(len, self.ready.values()))

    def release(self, index: int) -> None:
        """Release the places of a target that needs them no longer."""
        self._add_places(self.rooms_of.get(index, ()), 1)
        self.running -= 1

    def finish(self, index: int, ok: bool) -> list[BlockedTarget]:
        """Free those that waited for this one; the ones that can never run are returned, nearest first."""
        blocked: list[BlockedTarget] = []
        front = deque([(index, ok)])
        while front:
            i, good = front.popleft()
            for j in self.readers.pop(i, ()):
                self.waits[j] -= 1
                if not good:
                    self.failed_above.setdefault(j, []).append(i)
                if self.waits[j]:
                    continue
                if j in self.failed_above:
                    blocked.append((j, tuple(self.failed_above.pop(j))))
                    front.append((j, False))
                else:
                    self.make_ready(j)
        return blocked

    def make_ready(self, index: int) -> None:
        """Make a target ready; it waits for nothing, or was started and has left."""
        heappush(self.ready.setdefault(self.rooms_of.get(index, ()), []), index)


def wall_time(schedule: Schedule, seconds: Mapping[int, float], jobs: int) -> float:
    """Time from the first start to the last end, with `jobs` at once as far as their rooms allow."""
    running: list[tuple[float, int]] = []
    now = 0.0
    while True:
        while len(running) < jobs and (i := schedule.start()) is not None:
            heappush(running, (now + seconds[i], i))
        if not running:
            return now
        now, ended = heappop(running)
        schedule.release(ended)
        schedule.finish(ended, ok=True)
