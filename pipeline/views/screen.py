"""The last lines of a terminal, redrawn in place by a thread of their own; what is said above them stays.

The cursor rests on the empty line below and is never hidden: whatever ends this process, the terminal is in order."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Any

from pipeline.views.frame import Line
from pipeline.views.lines import encodable

# Never more often than REDRAW, so that ten thousand events cost no more than ten; times tick on every TICK.
REDRAW, TICK = 0.1, 1.0
# Who was away for so long had been stopped.  No handler for SIGCONT: of two signals that come at once (a closed window
# sends it after SIGHUP, `timeout` after SIGTERM) the first may then be taken by a thread that cannot wake the main one.
STOPPED = TICK + REDRAW + 1.0
HOME = "\r\x1b[{}A\x1b[J"  # to the first line of the block, and nothing left below

Block = Callable[[int, int], list[Line]]  # width, height -> lines


class Screen:
    """Draws what `block` gives for a width and a height.  Only its thread writes, until it is closed."""

    def __init__(self, stream: Any, block: Block) -> None:
        self.stream, self.block = stream, block
        self._said: deque[str] = deque()
        self._drawn: list[Line] = []
        self._changed, self._over = Event(), Event()
        self._gone = False
        self._thread = Thread(target=self._draw_on, name="display", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def say(self, line: str) -> None:
        self._said.append(line)

    def changed(self) -> None:
        if not self._changed.is_set():
            self._changed.set()

    def close(self) -> None:
        """Leaves what was said, and nothing of the block."""
        self._over.set()
        self._changed.set()
        self._thread.join()
        self._draw([])

    def _draw_on(self) -> None:
        awake = time.monotonic()
        while not self._over.wait(REDRAW):
            if time.monotonic() - awake > STOPPED:
                self._drawn = []  # others wrote below the block meanwhile: begin a new one
            self._changed.clear()
            width, height = self._size()
            self._draw(self.block(width, height) if self._in_front() else [])
            awake = time.monotonic()
            self._changed.wait(TICK)

    def _draw(self, lines: list[Line]) -> None:
        """One write for all, so that nobody sees it half done."""
        said = [self._said.popleft() for _ in range(len(self._said))]
        if said or lines != self._drawn:
            up = _rows(self._drawn, self._size()[0])
            rows = (f"{text}\n" for text in (*said, *(line.text for line in lines)))
            self._write((HOME.format(up) if up else "") + "".join(rows))
            self._drawn = lines

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self.stream.write(encodable(text, self.stream))
            self.stream.flush()
        except OSError:
            self._gone = True  # the terminal was closed: there is nobody left to tell

    def _size(self) -> tuple[int, int]:
        """Asked every time: it may have been resized.  A terminal that does not know its size says 0 x 0."""
        try:
            size = os.get_terminal_size(self.stream.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _in_front(self) -> bool:
        """Sent to the background, the terminal is the shell's: then only what is to stay is written."""
        try:
            return os.tcgetpgrp(self.stream.fileno()) == os.getpgrp()
        except OSError:
            return True  # a terminal that does not control us knows no background


def _rows(lines: Iterable[Line], width: int) -> int:
    """What was drawn takes more rows once the terminal has become narrower."""
    return sum(max(1, -(-line.width // width)) for line in lines)
