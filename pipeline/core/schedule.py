"""What may start now: after all it needs, in plan order, as far as its room has a place."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple


class Blocked(NamedTuple):
    """A target that cannot run, and those directly above it that are to blame."""

    target: int
    by: tuple[int, ...]


class Schedule:
    """Pure bookkeeping: tell it what ended, ask it what may start.  A waiting target never holds a place in a room."""

    def __init__(
        self, above: Mapping[int, Iterable[int]], room_of: Mapping[int, str], rooms: Mapping[str, int]
    ) -> None:
        self.waits: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.room_of = room_of
        self.free = dict(rooms)
        self.ready: dict[str, list[int]] = {}
        self.failed_above: dict[int, list[int]] = {}
        for i, needs in above.items():
            inside = [j for j in needs if j in above]
            self.waits[i] = len(inside)
            for j in inside:
                self.readers.setdefault(j, []).append(i)
            if not inside:
                self._make_ready(i)

    def start(self) -> int | None:
        """The next target to start, its place in the room taken; None when none may start now."""
        best: str | None = None
        for room, queue in self.ready.items():
            if queue and self.free.get(room, 1) > 0 and (best is None or queue[0] < self.ready[best][0]):
                best = room
        if best is None:
            return None
        if best in self.free:
            self.free[best] -= 1
        return heappop(self.ready[best])

    def again(self, index: int) -> None:
        """It was started, has left, and may start anew."""
        self._make_ready(index)

    def waiting(self) -> int:
        """How many could start if there were threads and places enough."""
        return sum(map(len, self.ready.values()))

    def leave(self, index: int) -> None:
        """The target no longer needs its place in the room."""
        room = self.room_of.get(index, "")
        if room in self.free:
            self.free[room] += 1

    def ended(self, index: int, ok: bool) -> list[Blocked]:
        """Free those that waited for this one; the ones that can never run are returned, nearest first."""
        blocked: list[Blocked] = []
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
                    blocked.append(Blocked(j, tuple(self.failed_above.pop(j))))
                    front.append((j, False))
                else:
                    self._make_ready(j)
        return blocked

    def _make_ready(self, index: int) -> None:
        heappush(self.ready.setdefault(self.room_of.get(index, ""), []), index)
