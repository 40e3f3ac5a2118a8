"""Turns at something that one thread at a time may use: in the order of asking, so that nobody waits for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from pipeline.edge.lean.model import Interrupted, Stop

LOOK = 0.1  # seconds between looks at whether to stop


class Turns:
    """A Lock would let the one who has just had it have it again before those who wait wake up."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = False
        self._waiting: deque[Lock] = deque()

    @contextmanager
    def turn(self, stop: Stop | None = None) -> Iterator[None]:
        self._take(stop)
        try:
            yield
        finally:
            self._give()

    def _take(self, stop: Stop | None) -> None:
        look(stop)
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            mine = Lock()
            mine.acquire()
            self._waiting.append(mine)
        self._wait(mine, stop)

    def _wait(self, mine: Lock, stop: Stop | None) -> None:
        has_come = False
        try:
            while not (has_come := mine.acquire(timeout=LOOK)):
                look(stop)
        finally:
            if not has_come:
                self._leave(mine)

    def _leave(self, mine: Lock) -> None:
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return
        self._give()  # it was our turn just then

    def _give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


def look(stop: Stop | None) -> None:
    if stop is not None and stop.is_set():
        raise Interrupted
