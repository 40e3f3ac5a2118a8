"""The few lines that show how far a build has come, fitted to the width and height of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED
from pipeline.core.rooms import spoken
from pipeline.core.words import count, duration
from pipeline.views.progress import Progress, Running

RUNNING_SHOWN = 8
BAR_WIDTH = 24
PLAIN, BOLD, DIM, RED, GREEN, CYAN = "", "1", "2", "31", "32", "36"
STYLE = {BUILT: GREEN, RECALLED: CYAN, FRESH: DIM, FAILED: RED, SKIPPED: DIM, IGNORED: DIM}

Span = tuple[str, str]  # style, text


class Look(NamedTuple):
    """What the terminal can show."""

    colour: bool
    unicode: bool

    @property
    def bar(self) -> tuple[str, str]:
        return ("█", "░") if self.unicode else ("#", "-")

    @property
    def cut(self) -> str:
        return "…" if self.unicode else "~"


def look_of(encoding: str, env: Mapping[str, str]) -> Look:
    """The locale decides, as for any program: Python's own encoding is UTF-8 even where the terminal's is not."""
    locale = (env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "").lower()
    return Look(not env.get("NO_COLOR"), "utf" in locale and "utf" in encoding.lower())


class Line(NamedTuple):
    """A line that fits, and how many columns it takes."""

    text: str
    width: int


def fitted(spans: Sequence[Span], width: int, look: Look) -> Line:
    out, room = "", width
    for style, text in spans:
        shown = text[:room]
        room -= len(shown)
        out += painted(shown, style, look)
    return Line(out, width - room)


def painted(text: str, style: str, look: Look) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if look.colour and style and text else text


def frame(progress: Progress, now: float, width: int, height: int, look: Look) -> list[Line]:
    """At most `height` lines of less than `width` columns: a full line makes some terminals add an empty one."""
    top = [_stopping(progress)] if progress.stopping else []
    top += [_bar(progress, now, width - 1, look), _places(progress, width - 1)]
    rows = [*top, *_running(progress, now, width - 1, height - len(top), look)]
    return [fitted(spans, width - 1, look) for spans in rows[:height]]


def _stopping(progress: Progress) -> list[Span]:
    return [(RED, f"{progress.stopping}: waiting for {count(len(progress.running))} to end")]


def _bar(progress: Progress, now: float, width: int, look: Look) -> list[Span]:
    """What matters least is left out first when there is no room, then the bar."""
    words = _words(progress, now)
    while len(words) > 1 and _length(words.values()) > width:
        del words[min(words)]
    cells = min(BAR_WIDTH, width - _length(words.values()) - 2)
    full = cells * progress.done // max(1, progress.total)
    done, open_ = look.bar
    bar = [(GREEN, done * full), (DIM, open_ * (cells - full)), (PLAIN, "  ")] if cells >= 5 else []
    return [*bar, *_spaced(list(reversed(words.values())))]


def _words(progress: Progress, now: float) -> dict[int, Span]:
    """importance -> what is said, the least important first: `frame` shows them the other way round."""
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
        7: (PLAIN, f"{progress.done}/{progress.total}"),
    }
    return {importance: span for importance, span in words.items() if span[1]}


def _spaced(spans: Sequence[Span]) -> list[Span]:
    return [part for n, span in enumerate(spans) for part in ([(PLAIN, "  "), span] if n else [span])]


def _length(words: Iterable[Span]) -> int:
    return sum(len(text) + 2 for _, text in words) - 2


def _places(progress: Progress, width: int) -> list[Span]:
    """How many run at once, of how many; then the same for each room, the fullest first, as far as they fit."""
    taken = progress.taken()
    rooms = sorted(taken, key=lambda room: (-taken[room] / progress.rooms[room], room))
    busy = min(len(progress.running), progress.jobs)
    words = [(PLAIN, f"{busy}/{progress.jobs} running")]
    words += [(DIM, f"{_room_name(room, rooms)} {taken[room]}/{progress.rooms[room]}") for room in rooms]
    while len(words) > 1 and _length(words) > width:
        del words[-1]
    return _spaced(words)


def _room_name(room: str, rooms: Sequence[str]) -> str:
    """With the run only when there are several."""
    run, _, name = room.partition(":")
    return spoken(name) if len({r.partition(":")[0] for r in rooms}) == 1 else f"{run}:{spoken(name)}"


def _running(progress: Progress, now: float, width: int, height: int, look: Look) -> list[list[Span]]:
    """Those that have been running longest; a last line counts the rest."""
    rows = max(0, min(height, RUNNING_SHOWN))
    running = list(progress.running.values())
    shown = running if len(running) <= rows else running[: max(0, rows - 1)]
    more = len(running) - len(shown)
    return [*(_row(r, now, width, look) for r in shown), *([[(DIM, f"{'':9}and {more} more")]] if more else [])]


def _row(running: Running, now: float, width: int, look: Look) -> list[Span]:
    """Of a name that is too long the end stays: it is what targets of a step differ in."""
    time, name = f"{duration(now - running.since, 0):>8} ", running.name
    over = len(time) + len(name) - width
    shown = (PLAIN, look.cut + name[over + 1 :] if over > 0 else name)
    return [(DIM, time), shown, *([(DIM, f"  {running.says}")] if running.says and over < 0 else [])]
