"""The live display of a build on a terminal: its last lines, redrawn in place by a thread of their own.

What is said above them stays.  The lines are fitted to the width and height of the terminal.  The cursor rests on the
empty line below and is never hidden: whatever ends this process, the terminal is in order."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from pipeline.core.graph import Target, room_label
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome
from pipeline.core.text import duration, target_count
from pipeline.views.events import Build
from pipeline.views.lines import clean_line, encodable, failure_lines, outcome_line
from pipeline.views.progress import Progress, RunningTarget

RUNNING_SHOWN = 8
BAR_WIDTH = 24
PLAIN, BOLD, DIM, RED, GREEN, CYAN = "", "1", "2", "31", "32", "36"
STYLE = {BUILT: GREEN, RECALLED: CYAN, FRESH: DIM, FAILED: RED, SKIPPED: DIM, IGNORED: DIM}

Span = tuple[str, str]  # style, text


class TerminalFeatures(NamedTuple):
    """Abilities of the terminal."""

    colour: bool
    unicode: bool

    @property
    def bar(self) -> tuple[str, str]:
        return ("█", "░") if self.unicode else ("#", "-")

    @property
    def cut(self) -> str:
        return "…" if self.unicode else "~"


def terminal_look(encoding: str, env: Mapping[str, str]) -> TerminalFeatures:
    """Abilities by the locale, as for any program: Python's own encoding is UTF-8 even where the terminal's is not."""
    locale = (env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "").lower()
    return TerminalFeatures(not env.get("NO_COLOR"), "utf" in locale and "utf" in encoding.lower())


class ScreenLine(NamedTuple):
    """Line that fits, and its width in columns."""

    text: str
    width: int


def fit_line(spans: Sequence[Span], width: int, look: TerminalFeatures) -> ScreenLine:
    out, room = "", width
    for style, text in spans:
        shown = text[:room]
        room -= len(shown)
        out += paint(shown, style, look)
    return ScreenLine(out, width - room)


def paint(text: str, style: str, look: TerminalFeatures) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if look.colour and style and text else text


def frame_lines(progress: Progress, now: float, width: int, height: int, look: TerminalFeatures) -> list[ScreenLine]:
    """Lines of the display: at most `height`, each narrower than `width`, since a full line makes some terminals add
    one."""
    top = [_stopping_row(progress)] if progress.stopping else []
    top += [_bar_row(progress, now, width - 1, look), _places_row(progress, width - 1)]
    rows = [*top, *_running_rows(progress, now, width - 1, height - len(top), look)]
    return [fit_line(spans, width - 1, look) for spans in rows[:height]]


def _stopping_row(progress: Progress) -> list[Span]:
    return [(RED, f"{progress.stopping}: waiting for {target_count(len(progress.running))} to end")]


def _bar_row(progress: Progress, now: float, width: int, look: TerminalFeatures) -> list[Span]:
    """Row with the bar and the counts; without room, the least important words go first, then the bar."""
    words = _counters(progress, now)
    while len(words) > 1 and _total_width(words.values()) > width:
        del words[min(words)]
    cells = min(BAR_WIDTH, width - _total_width(words.values()) - 2)
    full = cells * progress.done_count // max(1, progress.total)
    done, open_ = look.bar
    bar = [(GREEN, done * full), (DIM, open_ * (cells - full)), (PLAIN, "  ")] if cells >= 5 else []
    return [*bar, *_spaced(list(reversed(words.values())))]


def _counters(progress: Progress, now: float) -> dict[int, Span]:
    """Map importance to words, the least important first; they are shown the other way round."""
    counts = progress.counts
    rest = progress.rest(now)
    left_out = counts.get(SKIPPED, 0) + counts.get(IGNORED, 0)
    words = {
        0: (DIM, f"{left_out} skipped" if left_out else ""),
        1: (DIM, f"{counts[FRESH]} fresh" if FRESH in counts else ""),
        2: (DIM, duration(now - progress.begun, 0)),
        3: (CYAN, f"{counts[RECALLED]} recalled" if RECALLED in counts else ""),
        4: (GREEN, f"{counts[BUILT]} built" if BUILT in counts else ""),
        5: (BOLD, f"ETA {duration(rest, 0)}" if rest is not None and rest > 0 and progress.running else ""),
        6: (RED, f"{counts[FAILED]} failed" if FAILED in counts else ""),
        7: (PLAIN, f"{progress.done_count}/{progress.total}"),
    }
    return {importance: span for importance, span in words.items() if span[1]}


def _spaced(spans: Sequence[Span]) -> list[Span]:
    return [part for n, span in enumerate(spans) for part in ([(PLAIN, "  "), span] if n else [span])]


def _total_width(words: Iterable[Span]) -> int:
    return sum(len(text) + 2 for _, text in words) - 2


def _places_row(progress: Progress, width: int) -> list[Span]:
    """Row with how many run at once, of how many; then the same for each room, the fullest first, as far as
    they fit."""
    taken = progress.places_taken()
    rooms = sorted(taken, key=lambda room: (-taken[room] / progress.rooms[room], room))
    busy = min(len(progress.running), progress.jobs)
    words = [(PLAIN, f"{busy}/{progress.jobs} running")]
    words += [(DIM, f"{_room_name(room, rooms)} {taken[room]}/{progress.rooms[room]}") for room in rooms]
    while len(words) > 1 and _total_width(words) > width:
        del words[-1]
    return _spaced(words)


def _room_name(room: str, rooms: Sequence[str]) -> str:
    """Name of a room, with the run only when there are several."""
    run, _, name = room.partition(":")
    return room_label(name) if len({r.partition(":")[0] for r in rooms}) == 1 else f"{run}:{room_label(name)}"


def _running_rows(progress: Progress, now: float, width: int, height: int, look: TerminalFeatures) -> list[list[Span]]:
    """Rows of the targets that have been running longest; a last row counts the rest."""
    rows = max(0, min(height, RUNNING_SHOWN))
    running = list(progress.running.values())
    shown = running if len(running) <= rows else running[: max(0, rows - 1)]
    more = len(running) - len(shown)
    return [*(_running_row(r, now, width, look) for r in shown), *([[(DIM, f"{'':9}and {more} more")]] if more else [])]


def _running_row(running: RunningTarget, now: float, width: int, look: TerminalFeatures) -> list[Span]:
    """Row of a target; of a name that is too long the end stays: it is what targets of a step differ in."""
    time, name = f"{duration(now - running.since, 0):>8} ", running.name
    over = len(time) + len(name) - width
    shown = (PLAIN, look.cut + name[over + 1 :] if over > 0 else name)
    return [(DIM, time), shown, *([(DIM, f"  {running.says}")] if running.says and over < 0 else [])]


# Never more often than REDRAW, so that ten thousand events cost no more than ten; times tick on every TICK.
REDRAW, TICK = 0.1, 1.0
# Who was away for so long had been stopped.  No handler for SIGCONT: of two signals that come at once (a closed window
# sends it after SIGHUP, `timeout` after SIGTERM) the first may then be taken by a thread that cannot wake the main one.
STOPPED_SECONDS = TICK + REDRAW + 1.0
HOME = "\r\x1b[{}A\x1b[J"  # to the first line of the block, and nothing left below

Block = Callable[[int, int], list[ScreenLine]]  # width, height -> lines


class Screen:
    """Thread that draws what `block` gives for a width and a height.  Only it writes, until it is closed."""

    def __init__(self, stream: Any, block: Block) -> None:
        self.stream, self.block = stream, block
        self._pending_lines: deque[str] = deque()
        self._drawn: list[ScreenLine] = []
        self._changed, self._closing = Event(), Event()
        self._stream_closed = False
        self._thread = Thread(target=self._draw_on, name="display", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def say(self, line: str) -> None:
        self._pending_lines.append(line)

    def redraw_soon(self) -> None:
        if not self._changed.is_set():
            self._changed.set()

    def close(self) -> None:
        """Leave what was said, and nothing of the block."""
        self._closing.set()
        self._changed.set()
        self._thread.join()
        self._draw([])

    def _draw_on(self) -> None:
        awake = time.monotonic()
        while not self._closing.wait(REDRAW):
            if time.monotonic() - awake > STOPPED_SECONDS:
                self._drawn = []  # others wrote below the block meanwhile: begin a new one
            self._changed.clear()
            width, height = self._size()
            self._draw(self.block(width, height) if self._in_front() else [])
            awake = time.monotonic()
            self._changed.wait(TICK)

    def _draw(self, lines: list[ScreenLine]) -> None:
        """Draw in one write, so that nobody sees it half done."""
        said = [self._pending_lines.popleft() for _ in range(len(self._pending_lines))]
        if said or lines != self._drawn:
            up = _rows_taken(self._drawn, self._size()[0])
            rows = (f"{text}\n" for text in (*said, *(line.text for line in lines)))
            self._write((HOME.format(up) if up else "") + "".join(rows))
            self._drawn = lines

    def _write(self, text: str) -> None:
        if self._stream_closed:
            return
        try:
            self.stream.write(encodable(text, self.stream))
            self.stream.flush()
        except OSError:
            self._stream_closed = True  # the terminal was closed: there is nobody left to tell

    def _size(self) -> tuple[int, int]:
        """Size of the terminal, asked every time: it may have been resized.  0 x 0 stands for an unknown size."""
        try:
            size = os.get_terminal_size(self.stream.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _in_front(self) -> bool:
        """Check if the terminal is ours: in the background only what is to stay is written."""
        try:
            return os.tcgetpgrp(self.stream.fileno()) == os.getpgrp()
        except OSError:
            return True  # a terminal that does not control us knows no background


def _rows_taken(lines: Iterable[ScreenLine], width: int) -> int:
    """Rows that drawn lines take, which are more once the terminal has become narrower."""
    return sum(max(1, -(-line.width // width)) for line in lines)


class LiveDisplay:
    """Display that takes events from the main thread while the screen's own thread draws."""

    def __init__(self, stream: Any, shown: Collection[str], build: Build) -> None:
        self.shown = shown
        self.look = terminal_look(stream.encoding, os.environ)
        self.progress = Progress(build, time.monotonic())
        self.screen = Screen(stream, self._block)
        self._lock = Lock()

    def open(self) -> None:
        self.screen.open()

    def close(self, last: str) -> None:
        self.screen.say(last)
        self.screen.close()

    def stopping(self, why: str) -> None:
        self.progress.stopping = why  # from a signal handler: the lock may be taken

    def target_started(self, target: Target) -> None:
        with self._lock:
            self.progress.target_started(target, time.monotonic())
        self.screen.redraw_soon()

    def target_progress(self, target: Target, line: str) -> None:
        with self._lock:
            self.progress.target_progress(target, clean_line(line))
        self.screen.redraw_soon()

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        with self._lock:
            if outcome.status in self.shown and self.progress.worth_a_line(target, outcome):
                self._say(outcome_line(target.name, outcome), outcome)
            self.progress.target_ended(target, outcome)
        self.screen.redraw_soon()

    def _say(self, text: str, outcome: Outcome) -> None:
        word, rest = text[: len(outcome.status)], text[len(outcome.status) :]
        self.screen.say(paint(word, STYLE[outcome.status], self.look) + rest)
        for line in failure_lines(outcome):
            self.screen.say(line)

    def _block(self, width: int, height: int) -> list[ScreenLine]:
        with self._lock:
            return frame_lines(self.progress, time.monotonic(), width, height - 1, self.look)
