"""Values passed through from the caller's environment never reach a log; their names do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, BinaryIO

# Shorter values ("1", "yes") are no secrets, and blotting them out would blot out the log.
SHORTEST = 4


class Redactor:
    """Replaces each secret by the name of its variable, in a stream of chunks."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        by_length = sorted(secrets.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        long = [(name, value) for name, value in by_length if len(value) >= SHORTEST]
        self._pairs = [(value.encode(errors="surrogateescape"), f"[{name}]".encode()) for name, value in long]
        self._keep = max((len(value) for value, _ in self._pairs), default=1) - 1
        self._rest = b""

    def feed(self, chunk: bytes, last: bool = False) -> bytes:
        """What can be let out so far; the tail may be the start of a secret and is held back."""
        ready = self._rest + chunk
        for value, name in self._pairs:
            ready = ready.replace(value, name)
        cut = len(ready) if last else self._cut(ready)
        self._rest = ready[cut:]
        return ready[:cut]

    def _cut(self, ready: bytes) -> int:
        for start in range(max(0, len(ready) - self._keep), len(ready)):
            tail = ready[start:]
            if any(value.startswith(tail) for value, _ in self._pairs):
                return start
        return len(ready)


def copy_redacted(source: IO[bytes], log: BinaryIO, secrets: Mapping[str, str]) -> None:
    redactor = Redactor(secrets)
    while chunk := source.read1(65536):  # type: ignore[attr-defined]
        log.write(redactor.feed(chunk))
    log.write(redactor.feed(b"", last=True))


def redacted(text: str, secrets: Mapping[str, str]) -> str:
    return Redactor(secrets).feed(text.encode(errors="surrogateescape"), last=True).decode(errors="replace")
