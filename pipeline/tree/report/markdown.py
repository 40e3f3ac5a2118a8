"""Markdown tables that can be read as text: aligned columns, one-line cells, formatted numbers.

Candidates choose idea texts and file names: nothing in a cell may end it, move a cursor or mislead the eye."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import floor, log10
from unicodedata import combining, east_asian_width

from pipeline.core.text import one_line, plural

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069]+")
BLANK = "-"
# Columns of a page, and the least of a column that is clipped.
WIDTH, LEAST_WIDTH = 120, 10


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = (), flexible: Sequence[str] = ()
) -> list[str]:
    """A table as lines, none of them without rows; `right`: columns of numbers; `flexible`: columns that are clipped
    where the lines would be longer than WIDTH, the last ones first."""
    texts = [[*header], *map(list, rows)]
    widths = _column_widths(texts)
    for name in reversed(flexible):
        n, over = header.index(name), sum(widths) + 3 * len(widths) + 1 - WIDTH
        if over > 0:
            most = max(LEAST_WIDTH, widths[n] - over)
            for row in texts[1:]:
                row[n] = clip_columns(row[n], most)
            widths = _column_widths(texts)
    cells = [[table_cell(text) for text in row] for row in texts]
    sides = [name in right for name in header]
    rule = [("-" * (size - 1) + ":") if side else "-" * size for size, side in zip(widths, sides, strict=True)]
    lines = [[_pad_cell(*each) for each in zip(row, widths, sides, strict=True)] for row in cells]
    return [f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:])] if len(lines) > 1 else []


def _column_widths(texts: Iterable[Sequence[str]]) -> list[int]:
    rows = [[display_width(table_cell(text)) for text in row] for row in texts]
    return [max(3, *column) for column in zip(*rows, strict=True)]


def clip_columns(text: str, most: int) -> str:
    """A text on one line that is so wide as a cell at the most."""
    text = plain_text(text)
    while display_width(table_cell(text)) > most:
        text = f"{text[:-2].rstrip()}…"
    return text


def wrap_line(line: str) -> list[str]:
    """A line of prose or of a list as lines of at most WIDTH columns; words are only cut where one is longer."""
    indent = "> " if line.startswith("> ") else "  " if line.startswith("- ") else ""
    lines, now = [], ""
    for word in line.split(" "):
        if now.strip() and display_width(now) + 1 + display_width(word) > WIDTH:
            lines.append(now)
            now = f"{indent}{word}"
        else:
            now = f"{now} {word}" if now else word
        while display_width(now) > WIDTH:
            cut = next(n for n in range(len(now), 0, -1) if display_width(now[:n]) <= WIDTH)
            lines.append(now[:cut])
            now = f"{indent}{now[cut:]}"
    return [*lines, now]


def table_cell(text: str) -> str:
    return plain_text(text).replace("|", "\\|").replace("<", "\\<") or BLANK


def plain_text(text: str) -> str:
    """A text on one line, without characters that move the cursor of a terminal or the eye of a reader."""
    return " ".join(_CONTROL.sub(" ", text).split())


def clip_text(text: str, most: int) -> str:
    return one_line(_CONTROL.sub(" ", text), most)


def display_width(text: str) -> int:
    """The width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _pad_cell(text: str, size: int, right: bool) -> str:
    space = " " * (size - display_width(text))
    return f"{space}{text}" if right else f"{text}{space}"


def format_number(value: float) -> str:
    return f"{value:.4g}"


def format_chance(p: float) -> str:
    """A probability to three digits, a small one to two; never as a power of ten."""
    if p >= 0.001:
        return f"{p:.3g}"
    digits = -floor(log10(p)) + 1 if p > 0 else 0
    return f"{p:.{digits}f}".rstrip("0").rstrip(".")


SMALL_SCORE = 0.001  # four digits after the point would not show it


def format_score(value: float | None) -> str:
    if value is None:
        return BLANK
    return f"{value:+.3g}" if 0 < abs(value) < SMALL_SCORE else f"{value:+.4f}"


def format_change(before: float, after: float) -> str:
    if after == before:
        return f"{format_number(after)} (same)"
    return f"{format_number(before)} -> {format_number(after)} ({after - before:+.4g})"


def format_money(usd: float, unknown_calls: int = 0, form: str = "{:.12g} USD") -> str:
    """The known sum, and how much is unknown: `0.42 USD + 3 calls of unknown price`."""
    unknown = f" + {plural(unknown_calls, 'call')} of unknown price" if unknown_calls else ""
    return f"{form.format(usd)}{unknown}"
