"""Goals that wait, in the order in which they are to be tried; one queue for each room."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple


class Place(NamedTuple):
    """The smallest is tried first: the highest priority, of those the easiest, of those the first in the bank."""

    urgency: float  # priority, negated; where goals take rounds, after the round
    difficulty: float
    order: int


class Queues:
    """A goal that leaves before its turn stays in the heap and is passed over later: leaving costs nothing."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self._heaps: dict[str, list[Place]] = {room: [] for room in rooms}
        self._waiting: dict[int, tuple[str, Place]] = {}  # by the goal's place in the bank

    def enter(self, room: str, place: Place) -> None:
        if self._waiting.get(place.order) == (room, place):
            return
        self._waiting[place.order] = (room, place)
        heappush(self._heaps[room], place)

    def leave(self, order: int) -> None:
        self._waiting.pop(order, None)

    def first(self, room: str) -> Place | None:
        heap = self._heaps[room]
        while heap and self._waiting.get(heap[0].order) != (room, heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def __len__(self) -> int:
        return len(self._waiting)
