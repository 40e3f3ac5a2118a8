"""Equal work is done once: whoever comes second waits, and then finds the result in the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class InFlight:
    """The keys that are being made now, each with how many want it."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._keys: dict[str, tuple[Lock, int]] = {}

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Nobody else in this build makes it meanwhile."""
        with self._mutex:
            lock, count = self._keys.get(key) or (Lock(), 0)
            self._keys[key] = lock, count + 1
        try:
            with lock:
                yield
        finally:
            self._left(key)

    def _left(self, key: str) -> None:
        with self._mutex:
            lock, count = self._keys.pop(key)
            if count > 1:
                self._keys[key] = lock, count - 1
