"""Tables of Markdown that can be read as text: columns aligned, cells in one line, nothing in them that ends a cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069]+")
_SPACE = re.compile(r"\s+")
NONE = "-"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """`right`: columns of numbers."""
    cells = [[cell(text) for text in row] for row in (header, *rows)]
    widths = [max(3, *map(width, column)) for column in zip(*cells, strict=True)]
    sides = [name in right for name in header]
    rule = [("-" * (size - 1) + ":") if side else "-" * size for size, side in zip(widths, sides, strict=True)]
    lines = [[_padded(*each) for each in zip(row, widths, sides, strict=True)] for row in cells]
    return [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])]


def cell(text: str) -> str:
    return plain(text).replace("|", "\\|").replace("<", "\\<") or NONE


def plain(text: str) -> str:
    """In one line, without what moves the cursor of a terminal or the eye of a reader."""
    return _SPACE.sub(" ", _CONTROL.sub(" ", text)).strip()


def clipped(text: str, most: int) -> str:
    text = plain(text)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def width(text: str) -> int:
    """In columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _padded(text: str, size: int, right: bool) -> str:
    space = " " * (size - width(text))
    return f"{space}{text}" if right else f"{text}{space}"


def number(value: float) -> str:
    return f"{value:.4g}"


def signed(value: float) -> str:
    return f"{value:+.4g}"


def score(value: float | None) -> str:
    return NONE if value is None else f"{value:+.4f}"


def moved(before: float, after: float) -> str:
    change = f"{number(before)} -> {number(after)} ({signed(after - before)})"
    return change if after != before else f"{number(after)} (same)"


def seconds(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def money(usd: float, tokens: float) -> str:
    parts = [f"${usd:.4g}"] if usd else []
    return ", ".join([*parts, f"{tokens:,} tokens"] if tokens else parts) or NONE
