"""A file that only grows, line by line; what a crash tore off is cut."""

from __future__ import annotations

import os

from pipeline.edge.files import append_all


class Lines:
    """`found`: the lines that were there.  Those appended survive a kill at once, and a power cut after `sync`."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with open(path, "rb") as file:
            whole, ended, _torn = file.read().rpartition(b"\n")
        os.ftruncate(self._fd, len(whole + ended))
        self.found = whole.decode().split("\n") if ended else []
        self._dirty = False

    def append(self, line: str) -> None:
        append_all(self._fd, f"{line}\n".encode())
        self._dirty = True

    def sync(self) -> None:
        if self._dirty:
            self._dirty = False  # a line may come while the disk is busy: it is for the next time
            os.fsync(self._fd)

    def close(self) -> None:
        self.sync()
        os.close(self._fd)
