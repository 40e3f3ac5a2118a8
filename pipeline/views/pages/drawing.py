"""Pieces of pages and charts: frame, tables and blocks of a page, scales, colours, dashes, marks and bars.

A page needs nothing beside it, and has its looks in the light and in the dark.  Lines differ in colour, dashes and
marks, so that none of these is needed to tell them apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.core.projection import STATUSES, Block, Code, Column, Heat, Picture, Row, Table, Text
from pipeline.core.text import BLANK, visible_text

PAGE_STYLE = """
:root { color-scheme: light dark; --line: #8884; --done: #2a7f4f; --left: #b0552a; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre, code { font: 13px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font: 12px system-ui, sans-serif; }
h2 { margin-top: 2.2rem; } figure { margin: 1rem 0; } figcaption, .note { opacity: .8; } td { white-space: pre-line; }
td:first-child, td.number { white-space: nowrap; } details details, pre { white-space: pre-wrap; }
.promoted, .proved, .done, .passed { color: var(--done); } .failed, .refused, .open, .queued { color: var(--left); }
.wide { overflow-x: auto; }
""".strip()


def html_text(text: str) -> str:
    """Text of others in a page: it is no markup, and all of it can be seen."""
    return escape(visible_text(text))


def html_page(title: str, parts: Iterable[str], style: str) -> str:
    """The title is what it begins with."""
    return "\n".join([
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html_text(title)}</title><style>\n{PAGE_STYLE}\n{style.lstrip()}\n{CHART_STYLE}\n</style>",
        f"<h1>{html_text(title)}</h1>",
        *parts,
        "</html>\n",
    ])  # fmt: skip


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Cells are HTML already.  `numbers`: the columns that have numbers."""

    def cells(row: Sequence[str], tag: str) -> str:
        marks = [' class="number"' if at in numbers else "" for at in range(len(row))]
        return "".join(f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in zip(marks, row, strict=True))

    top = f"<tr>{cells(head, 'th')}</tr>" if head else ""
    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table>\n{top}\n{body}\n</table>"


# --- Blocks, on a page without a script.

Details = Mapping[str, Sequence[Block]]


def blocks_html(blocks: Iterable[Block], details: Details = MappingProxyType({})) -> Iterator[str]:
    """Blocks below their titles; rows whose items have details can be opened."""
    for block in blocks:
        if block.title:
            yield f"<h2>{html_text(block.title)}</h2>"
        yield from _DRAWN[type(block)](block, details)


def _text_html(block: Text, _: Details) -> Iterator[str]:
    yield from (f"<p>{html_text(part)}</p>" for part in block.text.split("\n\n"))


def _table_html(block: Table, details: Details) -> Iterator[str]:
    if block.sentence:
        yield f'<p class="note">{html_text(block.sentence)}</p>'
    head = [html_text(_column_title(each)) for each in block.columns]
    rows = ([_name_html(row, details), *map(html_text, row.cells[1:])] for row in block.rows)
    yield _wide_html(html_table(head, rows, [at for at, each in enumerate(block.columns) if each.is_number]))


def _wide_html(table: str) -> str:
    """A table that is scrolled by itself where the window is narrow."""
    return f'<div class="wide" tabindex="0">{table}</div>'


def _column_title(column: Column) -> str:
    unit = f", {column.unit}" if column.unit else ""
    return f"{column.title}{unit}{f' ({column.better} is better)' if column.better else ''}"


def _name_html(row: Row, details: Details) -> str:
    """The first cell of a row: its sign and name, and the details below that."""
    sign = f'<span class="{row.status}" title="{row.status}">{STATUSES[row.status]}</span> ' if row.status else ""
    name = f"{'&emsp;' * row.depth}{sign}{html_text(row.cells[0])}"
    if row.item not in details:
        return name
    return f"<details><summary>{name}</summary>{''.join(_opened_html(details[row.item]))}</details>"


def _opened_html(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        yield f"<h3>{html_text(block.title)}</h3>"
        yield from _DRAWN[type(block)](block, {})


def _picture_html(block: Picture, _: Details) -> Iterator[str]:
    yield f"<figure>{block.svg}<figcaption>{html_text(block.sentence)}</figcaption></figure>"


def _heat_html(block: Heat, _: Details) -> Iterator[str]:
    yield f'<p class="note">{html_text(block.sentence)} - was not measured.</p>'
    rows = ([row.title, *(BLANK if value is None else f"{value:g}" for value in row.values)] for row in block.rows)
    numbers = range(1, 1 + len(block.columns))
    yield _wide_html(
        html_table(["", *map(html_text, block.columns)], ([*map(html_text, row)] for row in rows), numbers)
    )


def _code_html(block: Code, _: Details) -> Iterator[str]:
    yield f"<pre>{html_text(block.text)}</pre>"
    if block.left_out:
        yield f'<p class="note">{block.left_out:,} bytes are left out; all of it is in {html_text(block.path)}.</p>'


_DRAWN: Mapping[type, Callable[[Any, Details], Iterator[str]]] = {
    Text: _text_html,
    Table: _table_html,
    Picture: _picture_html,
    Heat: _heat_html,
    Code: _code_html,
}


# --- Scales.

MOST_PARTS = 8  # a scale has at most so many parts, or one more
STEP_SIZES = (1, 2, 5, 10)


class Scale(NamedTuple):
    title: str
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False
    percent: bool = False
    unit: str = ""

    def part(self, value: float) -> float:
        """Share of the way along the scale, from 0 to 1."""
        if self.logarithmic:
            return log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def tick_text(self, tick: float) -> str:
        number = f"{100 * tick:g} %" if self.percent else f"{tick:,.0f}" if tick >= 1e4 else f"{tick:g}"
        return f"{number}{self.unit}"


def amount_scale(title: str, high: float) -> Scale:
    """Scale for counts: from 0 to a round number that is not below `high`."""
    step = max(1.0, _step_size(max(1.0, high)))
    marked = max(1, ceil(round(high / step, 9)))
    return Scale(title, 0.0, marked * step, _ticks(step, 0, marked))


def share_scale(title: str) -> Scale:
    return Scale(title, 0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), percent=True)


def difference_scale(title: str, low: float, high: float) -> Scale:
    """Scale for shares, or for differences of them, as far as there are some."""
    step = _step_size(high - low)
    first, last = floor(round(low / step, 9)), ceil(round(high / step, 9))
    return Scale(title, first * step, last * step, _ticks(step, first, last), percent=True)


def number_scale(title: str, values: Iterable[float], unit: str = "") -> Scale:
    """Scale for any finite numbers, negative ones too; of a single one, with some room around it."""
    known = [value for value in values if isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    room = 0.0 if high - low > 1e-9 * max(abs(low), abs(high)) else abs(low) / 10 or 1.0
    step = _step_size(high - low + 2 * room)
    first, last = floor(round((low - room) / step, 6)), ceil(round((high + room) / step, 6))
    ticks = tuple(float(f"{at * step:.9g}") for at in range(first, last + 1))
    return Scale(title, ticks[0], ticks[-1], ticks, unit=unit)


def decades(low: float, high: float) -> Iterator[float]:
    """List `low` and its tenfolds up to `high`."""
    tick = low
    while tick <= high:
        yield tick
        tick = round(tick * 10, 9)


def _step_size(whole: float) -> float:
    rough = whole / MOST_PARTS
    power: float = 10.0 ** floor(log10(rough))
    return next(step * power for step in STEP_SIZES if step * power >= rough * (1 - 1e-9))


def _ticks(step: float, first: int, last: int) -> tuple[float, ...]:
    return tuple(round(at * step, 9) for at in range(first, last + 1))


WIDTH, RIGHT, FOOT = 860, 24, 44  # the scale below takes the foot
LETTER = 6.6  # about as wide, at 12 px
CAP = 4  # half as long, at the ends of a bar
LIGHT = ("#0b62b5", "#c2410c", "#0f7b55", "#8b3fa8", "#7a5c00", "#0e7490", "#c02671", "#57606a")
DARK = ("#6cb6ff", "#ff9b6a", "#56d39b", "#d2a8ff", "#e3b341", "#56d4dd", "#ff8cc6", "#a5adb7")
# How many there are of each has no common factor: there are many combinations.
SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.5 5 4h-10z",
    "M0-6 6 0 0 6-6 0z",
    "M0 5.5 5-4h-10z",
    "M-1.7-6h3.4v4.3h4.3v3.4h-4.3v4.3h-3.4v-4.3h-4.3v-3.4h4.3z",
    "M-2-6h4v12h-4z",
)
DASHES = ("", "7 4", "2 3", "11 3 2 3", "14 5")


# The colours of lines and marks, in the light and in the dark.
LOOKS_STYLE = "\n".join(
    f"svg .look{number} {{ color: light-dark({light}, {dark}); }}"
    for number, (light, dark) in enumerate(zip(LIGHT, DARK, strict=True))
)
CHART_STYLE = f"""\
svg .mark {{ fill: currentColor; stroke: Canvas; }} svg .one {{ fill: none; stroke: currentColor; }}
svg .line {{ fill: none; stroke: currentColor; stroke-width: 2; }} svg .bar {{ stroke: currentColor; }}
svg .faint {{ stroke: #8884; }} svg .axis {{ stroke: #888; }}
{LOOKS_STYLE}"""


def svg_picture(title: str, height: float, parts: Iterable[str]) -> str:
    inside = "\n".join(parts)
    view = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html_text(title)}"'
    return f"<svg {view}>\n{inside}\n</svg>"


def svg_group(look: int, parts: Iterable[str], tooltip: str = "", item: str = "") -> str:
    """`item`: whose details it opens."""
    title = f"<title>{html_text(tooltip)}</title>" if tooltip else ""
    opens = f' data-item="{html_text(item)}"' if item else ""
    return f'<g class="look{look % len(LIGHT)}"{opens}>{title}{"".join(parts)}</g>'


def svg_mark(look: int, x: float, y: float) -> str:
    return f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{SHAPES[look % len(SHAPES)]}"/>'


def svg_sign(status: str, x: float, y: float) -> str:
    """The sign of a status, in the colour that it has on the page."""
    place = f'x="{x:.1f}" y="{y + 4.5:.1f}" text-anchor="middle"'
    return f'<text class="status {status}" {place}>{STATUSES[status]}</text>'


def svg_polyline(look: int, points: Iterable[tuple[float, float]]) -> str:
    dashes = DASHES[look % len(DASHES)]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="line"{dashed} points="{drawn}"/>'


def svg_line(kind: str, x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def upright_bar(x: float, low: float, high: float) -> Iterator[str]:
    yield svg_line("bar", x, low, x, high)
    yield from (svg_line("bar", x - CAP, y, x + CAP, y) for y in (low, high))


def flat_bar(y: float, low: float, high: float) -> Iterator[str]:
    yield svg_line("bar", low, y, high, y)
    yield from (svg_line("bar", x, y - CAP, x, y + CAP) for x in (low, high))


def svg_text(x: float, y: float, words: str, anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>{html_text(words)}</text>'


def bottom_scale(scale: Scale, x: Callable[[float], float], top: float, bottom: float) -> Iterator[str]:
    """The scale below, with a line up from each of its ticks."""
    for tick in scale.ticks:
        yield svg_line("axis" if not tick else "faint", x(tick), top, x(tick), bottom)
        yield svg_text(x(tick), bottom + 17, scale.tick_text(tick))
    yield svg_text((x(scale.low) + x(scale.high)) / 2, bottom + 36, scale.title)
