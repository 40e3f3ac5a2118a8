"""Logs without secrets: a value that is passed through from the caller's environment never reaches one; its name does.

What a secret is, a setting may not say of itself: in addresses and texts of JSON, passwords and keys are found."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO

# Secrets in a setting, by their names: behind the question mark of an address, or in a JSON text.
_SECRET_NAME = r"""[^=&#{"]*(?:key|token|secret|password|sig)[^=&#{"]*"""
_NAMED_SECRET = re.compile(rf"""[?&]{_SECRET_NAME}=([^&#"]+)|"{_SECRET_NAME}"\s*:\s*"([^"]+)""", re.IGNORECASE)
# Shorter values ("1", "yes") are no secrets, and blotting them out would blot out the log.
_SHORTEST = 4
_CHUNK = 65536
# Halves of pairs that stand for no byte of a text that was not UTF-8.
_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")


class Redactor:
    """Replaces each secret by the name of its variable, in a stream of chunks."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        by_length = sorted(secrets.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        long = [(name, value) for name, value in by_length if len(value) >= _SHORTEST]
        self._pairs = [(value.encode(errors="surrogateescape"), f"[{name}]".encode()) for name, value in long]
        self._rest = b""

    def feed(self, chunk: bytes, last: bool = False) -> bytes:
        """Give what can be let out so far; a tail that may be the start of a secret is held back."""
        ready = self._rest + chunk
        for value, name in self._pairs:
            ready = ready.replace(value, name)
        starts = () if last else (_start_of(value, ready) for value, _ in self._pairs)
        cut = min(starts, default=len(ready))
        self._rest = ready[cut:]
        return ready[:cut]


def _start_of(value: bytes, ready: bytes) -> int:
    """Place where a tail begins that is the start of `value`."""
    place = max(0, len(ready) - len(value) + 1)
    while (place := ready.find(value[:1], place)) >= 0 and not value.startswith(ready[place:]):
        place += 1
    return place if place >= 0 else len(ready)


def copy_redacted(source: int, log: IO[bytes], secrets: Mapping[str, str]) -> None:
    """Copy to the log what is in the file by now.  Somebody may still be writing to it."""
    redactor = Redactor(secrets)
    place, size = 0, os.fstat(source).st_size
    while place < size and (chunk := os.pread(source, min(_CHUNK, size - place), place)):
        log.write(redactor.feed(chunk))
        place += len(chunk)
    log.write(redactor.feed(b"", last=True))


def unnamed_file() -> IO[bytes]:
    """Open a file without a name, to whose end everybody writes, also after it was emptied."""
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    return file


@contextmanager
def redacted_output(secrets: Mapping[str, str], log: IO[bytes]) -> Iterator[IO[bytes]]:
    """File for the output of a command; output that may hold a secret waits in a file without a name until the end."""
    if not secrets:
        yield log
        return
    with unnamed_file() as hidden:
        try:
            yield hidden
        finally:
            copy_redacted(hidden.fileno(), log, secrets)


def redact_text(text: str, secrets: Mapping[str, str]) -> str:
    known = _NO_BYTE.sub("\ufffd", text)  # JSON of a service can hold half of a pair
    return Redactor(secrets).feed(known.encode(errors="surrogateescape"), last=True).decode(errors="replace")


def secrets_in(setting: str) -> list[str]:
    """The password in an address, where what stands there alone is one, and values that their names say are secret."""
    found = [query or value for query, value in _NAMED_SECRET.findall(setting)]
    login, is_there, _ = (setting.partition("://")[2] or setting).rpartition("@")
    if is_there and not setting.lstrip().startswith("{"):
        name, _, password = login.partition(":")
        found.append(password or name)
    return [each for each in found if each]
