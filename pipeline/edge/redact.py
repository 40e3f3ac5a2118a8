"""Values passed through from the caller's environment never reach a log; their names do."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO

# Shorter values ("1", "yes") are no secrets, and blotting them out would blot out the log.
SHORTEST = 4
CHUNK = 65536


class Redactor:
    """Replaces each secret by the name of its variable, in a stream of chunks."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        by_length = sorted(secrets.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        long = [(name, value) for name, value in by_length if len(value) >= SHORTEST]
        self._pairs = [(value.encode(errors="surrogateescape"), f"[{name}]".encode()) for name, value in long]
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
        return min((_start_of(value, ready) for value, _ in self._pairs), default=len(ready))


def _start_of(value: bytes, ready: bytes) -> int:
    """Where a tail begins that is the start of `value`."""
    place = max(0, len(ready) - len(value) + 1)
    while (place := ready.find(value[:1], place)) >= 0 and not value.startswith(ready[place:]):
        place += 1
    return place if place >= 0 else len(ready)


def copy_redacted(source: int, log: IO[bytes], secrets: Mapping[str, str]) -> None:
    """What is in the file by now.  Somebody may still be writing to it, in our place of the file if we moved it."""
    redactor = Redactor(secrets)
    place, size = 0, os.fstat(source).st_size
    while place < size and (chunk := os.pread(source, min(CHUNK, size - place), place)):
        log.write(redactor.feed(chunk))
        place += len(chunk)
    log.write(redactor.feed(b"", last=True))


def unnamed() -> IO[bytes]:
    """A file without a name, at whose end everybody writes, also after it was emptied."""
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


@contextmanager
def without(secrets: Mapping[str, str], log: IO[bytes]) -> Iterator[IO[bytes]]:
    """Where a command may print; what may have a secret in it waits in a file without a name until all is printed."""
    if not secrets:
        yield log
        return
    with unnamed() as hidden:
        try:
            yield hidden
        finally:
            copy_redacted(hidden.fileno(), log, secrets)


def redacted(text: str, secrets: Mapping[str, str]) -> str:
    return Redactor(secrets).feed(text.encode(errors="surrogateescape"), last=True).decode(errors="replace")
