"""Journal file of a search that is not over: on the disk after each line, and picked up where it ends.

Its first line says whose journal it is. A torn last line is cut off, and so is everything from a line on that is no
text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import IO

from pipeline.core.graph import Target
from pipeline.store import noop


def journal_path(target: Target) -> str:
    return f"{noop.folder(target.run)}/journals/{target.name.partition(':')[2]}"


class JournalFile:
    """`lines` are those of the journal up to now.  Before them the file says whose they are."""

    def __init__(self, file: IO[bytes], whose: str) -> None:
        self._file, self._whose = file, whose
        owner, *lines = [*self._whole(), ""]
        self.lines = lines[:-1]
        if owner != whose:
            self.begin()

    def _whole(self) -> list[str]:
        """A line that was being written when all ended is cut off, and so is all from a line on that is no text."""
        lines = self._file.read().split(b"\n")[:-1]
        whole = [*takewhile(_is_text, lines)]
        self._file.truncate(sum(map(len, whole)) + len(whole))
        return [line.decode() for line in whole]

    def begin(self) -> None:
        """From nothing."""
        self._file.truncate(0)
        self.lines = []
        self._put(self._whose)

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._put(line)

    def _put(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def open_journal(path: str, whose: str) -> Iterator[JournalFile]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+b") as file:
        file.seek(0)
        yield JournalFile(file, whose)
