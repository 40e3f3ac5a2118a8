"""The live display of a build on a terminal: its last lines, redrawn in place by a thread of their own.

What is said above them stays.  The lines are fitted to the width and height of the terminal.  The cursor rests on the
empty line below and is never hidden: whatever ends this process, the terminal is in order."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from pipeline.core.graph import Target, room_label
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, OUTAGE, RECALLED, SKIPPED, Outcome, Wait
from pipeline.core.text import duration, target_count
from pipeline.views.events import Build
from pipeline.views.lines import clean_line, encodable, failure_lines, outcome_line, steering_line
from pipeline.views.progress import Progress
from pipeline.views.reporters import Console

RUNNING_SHOWN = 8
BAR_WIDTH = 24
PLAIN, BOLD, DIM, RED, GREEN, CYAN = "", "1", "2", "31", "32", "36"
STYLE = {BUILT: GREEN, RECALLED: CYAN, FRESH: DIM, FAILED: RED, OUTAGE: RED, SKIPPED: DIM, IGNORED: DIM}

Span = tuple[str, str]  # style, text


class TerminalFeatures(NamedTuple):
    """Abilities of the terminal."""

    colour: bool
    unicode: bool


def terminal_look(encoding: str, env: Mapping[str, str]) -> TerminalFeatures:
    """Abilities by the locale, as for any program: Python's own encoding is UTF-8 even where the terminal's is not."""
    locale = (env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "").lower()
    return TerminalFeatures(not env.get("NO_COLOR"), "utf" in locale and "utf" in encoding.lower())


class ScreenLine(NamedTuple):
    """Line that fits, and its width in columns."""

    text: str
    width: int


def paint(text: str, style: str, look: TerminalFeatures) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if look.colour and style and text else text


def frame_lines(progress: Progress, now: float, width: int, height: int, look: TerminalFeatures) -> list[ScreenLine]:
    """Lines of the display, each narrower than `width`, since a full line makes some terminals add one."""
    rows: list[list[Span]] = []
    if progress.stopping:
        rows.append([(RED, f"{progress.stopping}: waiting for {target_count(len(progress.running))} to end")])
    rows += [_bar_row(progress, now, width - 1, look), _places_row(progress, width - 1)]
    rows += _running_rows(progress, now, width - 1, height - len(rows), look)
    lines = []
    for spans in rows[:height]:
        line, room = "", width - 1
        for style, text in spans:
            line += paint(text[:room], style, look)
            room -= len(text[:room])
        lines.append(ScreenLine(line, width - 1 - room))
    return lines


def _bar_row(progress: Progress, now: float, width: int, look: TerminalFeatures) -> list[Span]:
    """Row with the bar and the counts; without room, the least important words go first, then the bar."""
    counts, rest = progress.counts, progress.rest(now)
    left_out = counts.get(SKIPPED, 0) + counts.get(IGNORED, 0)
    by_importance = [
        (DIM, f"{left_out} skipped" if left_out else ""),
        (DIM, f"{counts[FRESH]} fresh" if FRESH in counts else ""),
        (DIM, duration(now - progress.begun, 0)),
        (CYAN, f"{counts[RECALLED]} recalled" if RECALLED in counts else ""),
        (GREEN, f"{counts[BUILT]} built" if BUILT in counts else ""),
        (BOLD, f"ETA {duration(rest, 0)}" if rest is not None and round(rest) >= 1 and progress.running else ""),
        (RED, f"{counts[FAILED]} failed" if FAILED in counts else ""),
        (PLAIN, f"{progress.done_count}/{progress.total}"),
    ]
    words = _fitting([span for span in reversed(by_importance) if span[1]], width)
    cells = min(BAR_WIDTH, width - _total_width(words) - 2)
    full = cells * progress.done_count // max(1, progress.total)
    done, open_ = "█░" if look.unicode else "#-"
    bar = [(GREEN, done * full), (DIM, open_ * (cells - full)), (PLAIN, "  ")] if cells >= 5 else []
    return [*bar, *_spaced(words)]


def _spaced(spans: Sequence[Span]) -> list[Span]:
    return [part for n, span in enumerate(spans) for part in ([(PLAIN, "  "), span] if n else [span])]


def _fitting(words: list[Span], width: int) -> list[Span]:
    """The words that fit, at least the first."""
    while len(words) > 1 and _total_width(words) > width:
        del words[-1]
    return words


def _total_width(words: Iterable[Span]) -> int:
    return sum(len(text) + 2 for _, text in words) - 2


def _places_row(progress: Progress, width: int) -> list[Span]:
    """Row with how many run at once, of how many; then the same for each room, the fullest first, as far as they fit.

    A room is named with its run only where there are several."""
    taken = progress.places_taken()
    several = len({room.partition(":")[0] for room in taken}) > 1
    words = [(PLAIN, f"{min(len(progress.running), progress.jobs)}/{progress.jobs} running")]
    for room in sorted(taken, key=lambda room: (-taken[room] / progress.rooms[room], room)):
        run, _, name = room.partition(":")
        label = f"{run}:{room_label(name)}" if several else room_label(name)
        words.append((DIM, f"{label} {taken[room]}/{progress.rooms[room]}"))
    return _spaced(_fitting(words, width))


def _running_rows(progress: Progress, now: float, width: int, height: int, look: TerminalFeatures) -> list[list[Span]]:
    """Rows of the targets that have been running longest; a last row counts the rest.

    Of a name that is too long the end stays: it is what targets of a step differ in."""
    most, running = max(0, min(height, RUNNING_SHOWN)), list(progress.running.values())
    shown = running if len(running) <= most else running[: max(0, most - 1)]
    rows: list[list[Span]] = []
    for each in shown:
        time = f"{duration(now - each.since, 0):>8} "
        over = len(time) + len(each.name) - width
        end = ("…" if look.unicode else "~") + each.name[over + 1 :]
        rows.append([(DIM, time), (PLAIN, end if over > 0 else each.name)])
        if each.says and over < 0:
            rows[-1].append((DIM, f"  {each.says}"))
    if len(running) > len(shown):
        rows.append([(DIM, f"{'':9}and {len(running) - len(shown)} more")])
    return rows


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
        if self._thread.is_alive():  # it was opened
            self._thread.join()
        self._draw([])

    def _draw_on(self) -> None:
        awake = time.monotonic()
        while not self._closing.wait(REDRAW):
            if time.monotonic() - awake > STOPPED_SECONDS:
                self._drawn = []  # others wrote below the block meanwhile: begin a new one
            awake = time.monotonic()  # before it draws: it may be stopped within
            self._changed.clear()
            width, height = self._size()
            self._draw(self.block(width, height) if self._in_front() else [])
            self._changed.wait(TICK)

    def _draw(self, lines: list[ScreenLine]) -> None:
        """Draw in one write, so that nobody sees it half done."""
        lines_above = [self._pending_lines.popleft() for _ in range(len(self._pending_lines))]
        if self._stream_closed or not (lines_above or lines != self._drawn):
            return
        width = self._size()[0]
        up = sum(max(1, -(-line.width // width)) for line in self._drawn)  # more once the terminal is narrower
        rows = (f"{text}\n" for text in (*lines_above, *(line.text for line in lines)))
        self._drawn = lines
        try:
            self.stream.write(encodable((HOME.format(up) if up else "") + "".join(rows), self.stream))
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


class LiveConsole(Console):
    """Reporter that takes events from the main thread while the screen's own thread draws."""

    def begin(self, build: Build) -> None:
        super().begin(build)
        self.look = terminal_look(self.outstream.encoding, os.environ)
        self.progress = Progress(build, time.monotonic())
        self.screen = Screen(self.outstream, self._block)
        self._lock = Lock()

    def initialize(self, tasks: Any, selected: Any) -> None:
        if self.build.todo:
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

    def steered(self, run: str, request: Mapping[str, Any]) -> None:
        self.screen.say(steering_line(run, request))

    def target_waits(self, target: Target, wait: Wait) -> None:
        """Show it beside the target, and let a line stay: by the morning the display has forgotten it."""
        self.target_progress(target, f"waits: {wait.line}")
        self.screen.say(f"{target.name}: waits: {clean_line(wait.line)}")

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        with self._lock:
            super().target_ended(target, outcome)
            self.progress.target_ended(target, outcome)
        self.screen.redraw_soon()

    def remark(self, line: str) -> None:
        self.screen.say(clean_line(line))

    def write_outcome(self, target: Target, outcome: Outcome) -> None:
        if self.progress.worth_a_line(target, outcome):
            line, word = outcome_line(target.name, outcome), OUTAGE if outcome.outage else outcome.status
            self.screen.say(paint(word, STYLE[word], self.look) + line.removeprefix(word))
            for more in failure_lines(outcome):
                self.screen.say(more)

    def _block(self, width: int, height: int) -> list[ScreenLine]:
        with self._lock:
            return frame_lines(self.progress, time.monotonic(), width, height - 1, self.look)
