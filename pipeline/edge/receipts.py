"""The receipts of a run: a line each, appended and synced after the outputs are in place.  The truth.

A line is `<crc> <target> <event> <json>`.  A torn or damaged line counts as not written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from pipeline.core.freshness import Receipt
from pipeline.core.recipe import compact
from pipeline.edge import state
from pipeline.edge.files import append_all, write_whole

DONE, FAILED, IGNORED, FORGOTTEN = "done", "failed", "ignored", "forgotten"


class Line(NamedTuple):
    target: str
    event: str
    fields: dict[str, Any]


class Receipts:
    """What was recorded of the targets of one run."""

    def __init__(self, run: str) -> None:
        self.path = self.path_of(run)
        self._fd: int | None = None
        self._at: dict[str, dict[str, tuple[int, int]]] = {}
        self._forgotten: dict[str, set[str]] = {}
        self._lines = 0
        self._size = 0
        try:
            with open(self.path, "rb") as file:
                self._index(file.read())
        except FileNotFoundError:
            pass  # a run never built has none

    @staticmethod
    def path_of(run: str) -> str:
        return f"{state.folder(run)}/receipts"

    def _index(self, content: bytes) -> None:
        """Remember where each target's lines are; they are read and checked when asked for."""
        start = 0
        for raw in content.split(b"\n"):
            if raw.count(b" ", 0, 300) >= 3:
                _, name, event, _ = raw.split(b" ", 3)
                self._place(name.decode(errors="replace"), event.decode(errors="replace"), start, len(raw))
            start += len(raw) + 1
        self._size = len(content)

    def _place(self, target: str, event: str, start: int, size: int) -> None:
        self._lines += 1
        events = self._at.setdefault(target, {})
        if event == FORGOTTEN:
            line = self._read(start, size)
            self._forgotten.setdefault(target, set()).update(line.fields["keys"] if line else ())
            events.clear()
        elif event == DONE:
            events.pop(FAILED, None)
            if target in self._forgotten and (line := self._read(start, size)):
                self._forgotten[target].discard(line.fields["key"])
        events[event] = (start, size)

    def _read(self, start: int, size: int) -> Line | None:
        with open(self.path, "rb") as file:
            return parsed(os.pread(file.fileno(), size, start))

    def _last(self, target: str, event: str) -> Line | None:
        place = self._at.get(target, {}).get(event)
        return self._read(*place) if place else None

    def receipt(self, target: str) -> Receipt | None:
        line = self._last(target, DONE)
        return Receipt(**{**line.fields, "inputs": dict(line.fields["inputs"])}) if line else None

    def failure(self, target: str) -> dict[str, Any] | None:
        line = self._last(target, FAILED)
        return line.fields if line else None

    def ignored(self, target: str) -> bool:
        return IGNORED in self._at.get(target, ())

    def forgot(self, target: str, key: str) -> bool:
        """The user asked for this result to be made anew."""
        return key in self._forgotten.get(target, ())

    def names(self) -> list[str]:
        return list(self._at)

    def append(self, lines: Iterable[Line]) -> None:
        """Write `lines`: from here on they survive a kill; after the next `sync` a power cut too."""
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            self._size = self._after_torn_tail(self._fd)
        batch = b""
        for line in lines:
            raw = printed(line)
            start = self._size + len(batch)
            batch += raw
            if line.event == DONE:
                self._forgotten.get(line.target, set()).discard(line.fields["key"])
            self._lines += 1
            events = self._at.setdefault(line.target, {})
            if line.event == FORGOTTEN:
                self._forgotten.setdefault(line.target, set()).update(line.fields["keys"])
                events.clear()
            elif line.event == DONE:
                events.pop(FAILED, None)
            events[line.event] = (start, len(raw) - 1)
        append_all(self._fd, batch)
        self._size += len(batch)

    def sync(self) -> None:
        if self._fd is not None:
            os.fdatasync(self._fd)

    @staticmethod
    def _after_torn_tail(fd: int) -> int:
        """A line cut off by a kill is closed, so that the next one starts on its own."""
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            append_all(fd, b"\n")
            size += 1
        return size

    def live(self) -> Iterator[Line]:
        for target, events in self._at.items():
            for event in events:
                if line := self._last(target, event):
                    yield line

    def compact(self) -> None:
        """Drop lines that later ones made void, once they are most of the file."""
        live = sum(map(len, self._at.values()))
        if self._lines > 1000 and self._lines > 4 * live:
            self.close()
            write_whole(self.path, b"".join(map(printed, self.live())))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def printed(line: Line) -> bytes:
    body = f"{line.target} {line.event} {compact(line.fields)}".encode()
    return b"%08x %b\n" % (crc32(body), body)


def parsed(raw: bytes) -> Line | None:
    crc, _, body = raw.partition(b" ")
    try:
        if int(crc, 16) != crc32(body):
            return None
        target, event, fields = body.decode().split(" ", 2)
        return Line(target, event, json.loads(fields))
    except ValueError:
        return None


def done(target: str, receipt: Receipt) -> Line:
    return Line(target, DONE, {**receipt._asdict(), "inputs": list(receipt.inputs.items())})  # their order counts

