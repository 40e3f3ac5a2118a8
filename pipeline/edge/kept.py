"""What is dear to make and serves many targets: made when it is first asked for, closed when the build ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import ExitStack
from threading import Lock
from typing import Protocol, TypeVar


class Closes(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closes)


class Kept:
    def __init__(self) -> None:
        self._lock = Lock()
        self._made: dict[Hashable, Closes] = {}

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """The same for the same name, which stands for its type too."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            found: T = self._made[name]  # type: ignore[assignment]
            return found

    def close(self) -> None:
        """All of it, the last first, also when one of them fails to."""
        with self._lock, ExitStack() as stack:
            for each in self._made.values():
                stack.callback(each.close)
            self._made.clear()
