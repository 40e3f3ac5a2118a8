"""Receipts of a run: a line each, appended and synced after the outputs are in place.  The truth.

A line is `<crc> <target> <event> <json>`.  A torn or damaged line counts as not written.  Of each event of a target the
last line holds.  Events as transitions:

    done       the target was made: `failed` and `forgotten` before it are void
    failed     its last attempt failed; what was done before stays true of its inputs
    ignored    it is left out of builds, until it is forgotten
    forgotten  it is to be made anew: all lines before are void"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

from pipeline.core.freshness import FailureRecord, Receipt
from pipeline.core.outcome import RECALLED
from pipeline.core.projection import (
    TARGET_FAILED,
    TARGET_LEFT_OUT,
    TARGET_MADE,
    TARGET_OPEN,
    TARGET_RECALLED,
    TARGET_RUNNING,
    TARGET_WAITS,
    RunningTarget,
    TargetState,
)
from pipeline.core.recipe import compact_json
from pipeline.errors import writing
from pipeline.store import noop
from pipeline.store.files import append_all, missing_newline, open_plain, write_whole

CUT_OFF = "cut off: the build that made it was killed"
DONE, FAILED, IGNORED, FORGOTTEN = "done", "failed", "ignored", "forgotten"
# Of a receipt, files by path whose order counts: which of them belongs to which port.
ORDERED = ("inputs", "outputs")


# macOS has no fdatasync.
_sync = getattr(os, "fdatasync", os.fsync)


class ReceiptLine(NamedTuple):
    target: str
    event: str
    fields: Mapping[str, Any]

    @property
    def raw(self) -> bytes:
        body = f"{self.target} {self.event} {compact_json(self.fields)}".encode()
        return b"%08x %b\n" % (crc32(body), body)


# So many targets are looked for one by one; after that all lines are indexed.
FEW = 50


class Receipts:
    """Records of the targets of one run.  Lines are looked up when asked for: most builds ask for few.

    Many threads may ask and append."""

    def __init__(self, run: str) -> None:
        self.path = self.path_of(run)
        self._fd: int | None = None
        self._mutex, self._appending = Lock(), Lock()
        self._at: dict[str, dict[str, tuple[int, int]]] = {}
        self._indexed = False
        self._torn = False  # the file may end within a line
        try:
            with open_plain(self.path) as file:
                self._content = file.read()
        except FileNotFoundError:
            self._content = b""  # a run never built has none
        self._size = len(self._content)

    @staticmethod
    def path_of(run: str) -> str:
        return f"{noop.folder(run)}/receipts"

    def _events(self, target: str) -> dict[str, tuple[int, int]]:
        """Map each event of `target` to the place of its line, for lines that still hold."""
        with self._mutex:
            if target not in self._at and not self._indexed:
                if len(self._at) < FEW:
                    self._at[target] = {}
                    self._find_lines(target)
                else:
                    self._index_all()
            return self._at.setdefault(target, {})

    def _find_lines(self, target: str) -> None:
        word = f" {target} ".encode()
        at = self._content.find(word)
        while at >= 0:
            start = self._content.rfind(b"\n", 0, at) + 1
            end = self._content.find(b"\n", at)
            end = len(self._content) if end < 0 else end
            if at == start + 8:
                event = self._content[at + len(word) : end].partition(b" ")[0]
                self._index_line(target, event.decode(errors="replace"), start, end - start)
            at = self._content.find(word, end)

    def _index_all(self) -> None:
        ours = {*self._at}  # found already, perhaps with lines appended since
        start = 0
        for raw in self._content.split(b"\n"):
            if raw.count(b" ", 0, 300) >= 3:
                _, name, event, _ = raw.split(b" ", 3)
                if (target := name.decode(errors="replace")) not in ours:
                    self._index_line(target, event.decode(errors="replace"), start, len(raw))
            start += len(raw) + 1
        self._indexed = True

    def _index_line(self, target: str, event: str, start: int, size: int) -> None:
        """Index a line, and drop earlier lines that it makes void."""
        events = self._at.setdefault(target, {})
        if event == FORGOTTEN:
            events.clear()
        elif event == DONE:
            events.pop(FAILED, None)
            events.pop(FORGOTTEN, None)
        events[event] = (start, size)

    def _last_line(self, target: str, event: str) -> ReceiptLine | None:
        place = self._events(target).get(event)
        if place is None:
            return None
        start, size = place
        if start < len(self._content):
            return parse_line(self._content[start : start + size])
        assert self._fd is not None
        return parse_line(os.pread(self._fd, size, start))

    def receipt(self, target: str) -> Receipt | None:
        line = self._last_line(target, DONE)
        if line is None:
            return None
        fields = line.fields
        files = {name: dict(fields[name]) for name in ORDERED}
        return Receipt(**{**fields, **files, "unsettled": tuple(fields["unsettled"])})

    def failure(self, target: str) -> FailureRecord | None:
        line = self._last_line(target, FAILED)
        return FailureRecord(**line.fields) if line else None

    def failures(self) -> dict[str, FailureRecord]:
        """The targets whose last attempt failed, as they were when this was opened.

        Of many targets they are few: no index is made, and for each is read on only from its last failure."""
        last: dict[bytes, int] = {}
        word, at = f" {FAILED} ".encode(), -1
        while (at := self._content.find(word, at + 1)) >= 0:
            start = self._content.rfind(b"\n", 0, at) + 1
            head = self._content[start:at].split(b" ")
            if len(head) == 2:
                last[head[1]] = start
        lines = (self._line_at(start) for name, start in last.items() if not self._is_void(name, start))
        return {line.target: FailureRecord(**line.fields) for line in lines if line}

    def _line_at(self, start: int) -> ReceiptLine | None:
        end = self._content.find(b"\n", start)
        return parse_line(self._content[start : len(self._content) if end < 0 else end])

    def _is_void(self, target: bytes, start: int) -> bool:
        """Check if a line after the one that begins at `start` makes a failure of the target void."""
        ends = (f" {event} ".encode() for event in (DONE, FORGOTTEN))
        places = (self._content.find(b" " + target + end, start) for end in ends)
        return any(at >= 0 and self._content.rfind(b"\n", 0, at) == at - 9 for at in places)

    def is_ignored(self, target: str) -> bool:
        return IGNORED in self._events(target)

    def is_forgotten(self, target: str) -> bool:
        """Check if the user asked for it to be made anew and that was not done yet."""
        return FORGOTTEN in self._events(target)

    def names(self) -> list[str]:
        with self._mutex:
            if not self._indexed:
                self._index_all()
            return list(self._at)

    def append(self, lines: Iterable[ReceiptLine]) -> None:
        """Append lines: they survive a kill from here on, and a power cut after the next `sync`."""
        with self._appending:
            self._append(lines)

    def _append(self, lines: Iterable[ReceiptLine]) -> None:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._torn = True
        with writing(self.path):
            if self._torn:
                append_all(self._fd, missing_newline(self._fd))
                self._size = os.fstat(self._fd).st_size
            for line in lines:
                raw = line.raw
                self._events(line.target)
                self._torn = True
                append_all(self._fd, raw)
                self._torn = False
                with self._mutex:
                    self._index_line(line.target, line.event, self._size, len(raw) - 1)
                self._size += len(raw)

    def sync(self) -> None:
        if self._fd is not None:
            with writing(self.path):
                _sync(self._fd)

    def compact(self, targets: int) -> None:
        """Drop lines that later ones made void, once they are most of the file."""
        if self._fd is not None and self._content.count(b"\n") > max(1000, 8 * targets):
            lines = [self._last_line(target, event) for target in self.names() for event in self._at[target]]
            content = b"".join(line.raw for line in lines if line)
            self.close()
            write_whole(self.path, content)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def target_states(
    run: str, names: Collection[str], running: Collection[str] = (), cut_off: Iterable[RunningTarget] = ()
) -> dict[str, TargetState]:
    """How targets stand by what is recorded; `running`: those that a build works on; `cut_off`: those on which one did
    that was killed, which are open unless they have ended since."""
    receipts = Receipts(run)
    if len(names) > FEW:
        receipts.names()  # all of them are indexed at once
    states = {name: _state_of(name, receipts, name in running) for name in names}
    for name, since, _ in cut_off:
        if name in states and (states[name].at or 0.0) < since:
            states[name] = states[name]._replace(status=TARGET_OPEN, why=CUT_OFF)
    return states


def _state_of(name: str, receipts: Receipts, is_running: bool) -> TargetState:
    receipt, failure = receipts.receipt(name), receipts.failure(name)
    if is_running:
        return TargetState(TARGET_RUNNING, receipt, failure)
    if receipts.is_ignored(name):
        return TargetState(TARGET_LEFT_OUT, receipt, failure)
    if failure:
        return TargetState(TARGET_WAITS if failure.outage else TARGET_FAILED, receipt, failure)
    if receipt is None or receipts.is_forgotten(name):
        return TargetState(TARGET_OPEN, receipt)
    return TargetState(TARGET_RECALLED if receipt.how == RECALLED else TARGET_MADE, receipt)


def parse_line(raw: bytes) -> ReceiptLine | None:
    crc, _, body = raw.partition(b" ")
    try:
        if int(crc, 16) != crc32(body):
            return None
        target, event, fields = body.decode().split(" ", 2)
        return ReceiptLine(target, event, json.loads(fields))
    except ValueError:
        return None


def done_line(target: str, receipt: Receipt) -> ReceiptLine:
    fields = receipt._asdict()
    return ReceiptLine(target, DONE, fields | {name: list(fields[name].items()) for name in ORDERED})
