"""Text for people: one bounded line, numbers, lists of names, durations.

Models choose some of it: what cannot be seen is taken out here, for whatever medium it goes to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BLANK = "-"  # of a cell, what is missing: never a zero
# A step may read from ten thousand others; so many of them are named.
MOST_NAMED = 3

# What moves a cursor, turns the direction of a line, or has no width.  Line ends and tabs are left to who asks.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


def visible_text(text: str, instead: str = " ") -> str:
    """A text in which all can be seen: lines and tabs stay, `instead` stands for what could mislead."""
    return text if text.isprintable() else _UNSEEN.sub(instead, text)


def plain_text(text: str) -> str:
    """A text on one line, without characters that move the cursor of a terminal or the eye of a reader."""
    return " ".join(visible_text(text).split())


def printable_line(text: str, most: int) -> str:
    """Bound `text` to `most` characters, exact as far as they go: what cannot be printed is escaped."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:most])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plural(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what[:-1]}ies" if what[-1] == "y" else f"{number} {what}s"


def target_count(targets: int) -> str:
    return plural(targets, "target")


def count_words(counts: Mapping[str, int]) -> str:
    """Format counts: `23 fresh, 1 stale`."""
    return ", ".join(f"{number} {word}" for word, number in counts.items() if number)


def join_names(names: Sequence[str], most: int = MOST_NAMED) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def one_line(text: str, most: int) -> str:
    """A text on one line of at most `most` characters; a longer one ends with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def round_decimals(number: float, digits: int) -> float:
    """Round to so many decimals; minus zero is zero."""
    return round(number, digits) + 0.0


def byte_text(size: float) -> str:
    """Format bytes: 2.1 GB, 64 MB, 12 bytes."""
    for unit, bytes_of_it in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= bytes_of_it:
            return f"{size / bytes_of_it:.3g} {unit}"
    return f"{size:g} bytes"


def duration(seconds: float, digits: int = 1) -> str:
    """Format seconds: 0.3 s, 12.4 s, 3 min 20 s, 2 h 05 min."""
    if round(seconds, digits) < 60:
        return f"{max(seconds, 0.0):.{digits}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
