"""Equal work is done once: whoever comes second stands aside, and later finds the result in the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Busy(Exception):
    """The key is being made by another thread of this build."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class InFlight:
    """The keys that are being made now."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._keys: set[str] = set()

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        with self._mutex:
            if key in self._keys:
                raise Busy(key)
            self._keys.add(key)
        try:
            yield
        finally:
            with self._mutex:
                self._keys.discard(key)

    def __contains__(self, key: str) -> bool:
        with self._mutex:
            return key in self._keys
