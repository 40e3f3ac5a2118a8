"""Markdown tables that can be read as text: aligned columns, one-line cells, formatted numbers.

Candidates choose idea texts and file names: nothing in a cell may end it, move a cursor or mislead the eye, and in a
page nothing of theirs is a link, an image, a mention, HTML or a heading.  `markdown_text` is where they enter one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import floor, log10
from unicodedata import combining, east_asian_width

from pipeline.core.text import BLANK, one_line, plain_text, plural, visible_text

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
            cut -= (len(now[:cut]) - len(now[:cut].rstrip("\\"))) % 2  # a backslash stays with what it is for
            lines.append(now[:cut])
            now = f"{indent}{now[cut:]}"
    return [line if n == 0 else _without_marker(line, indent) for n, line in enumerate([*lines, now])]


def _without_marker(line: str, indent: str) -> str:
    """A line that goes on with the one above, and so must not begin as a heading, a list or a quotation does."""
    first, space, rest = line.removeprefix(indent).partition(" ")
    return f"{indent}{_escaped_marker(first)}{space}{rest}"


# Words that begin a heading, a list or a quotation, or make a heading or a table of the line above.
_MARKER = re.compile(r"#{1,6}|[-+]|=+|:?-+:?|\d{1,9}[.)]|>.*|~{3}.*", re.DOTALL)
# Words that pages make links, mentions or formulas of, whatever stands before them.
_LIVE = re.compile(r"@\w|#\d|\bGH-\d|://|\bwww\.|\$(?!\d)", re.IGNORECASE)
_SPECIAL = re.compile(r"[\\`*\[\]<~|]|(?<![^\W_])_+|_+(?![^\W_])|&(?=#?\w+;)")
_IN_CODE = str.maketrans("`|", "'¦")  # the one would end the code, the other the cell of a table


def markdown_text(text: str) -> str:
    """A text as one line of a page, or one item of a list, in which nothing is heeded as Markdown."""
    first, space, rest = _markdown_words(text).partition(" ")
    return f"{_escaped_marker(first)}{space}{rest}"


def table_cell(text: str) -> str:
    """The same for a cell, or for words in the middle of a line."""
    return _markdown_words(text) or BLANK


def _markdown_words(text: str) -> str:
    return " ".join(map(_markdown_word, plain_text(text).split()))


def _markdown_word(word: str) -> str:
    """A word as it is.  GitHub looks for mentions and addresses where no backslash is left: these stand as code."""
    if not _LIVE.search(word):
        return _SPECIAL.sub(lambda found: "".join(f"\\{char}" for char in found[0]), word)
    return f"`{word.translate(_IN_CODE)}`"


def _escaped_marker(word: str) -> str:
    if not _MARKER.fullmatch(word):
        return word
    return f"{word[:-1]}\\{word[-1]}" if word[0].isdigit() else f"\\{word}"


def clip_text(text: str, most: int) -> str:
    return one_line(visible_text(text), most)


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
