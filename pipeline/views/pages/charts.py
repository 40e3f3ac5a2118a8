"""Charts: lines with marks, intervals and a legend; and a row for each of some figures.

A row has its name, its mean, the interval, and each value that they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeline.views.pages.drawing import (
    FOOT,
    LETTER,
    RIGHT,
    WIDTH,
    Scale,
    bottom_scale,
    flat_bar,
    svg_group,
    svg_line,
    svg_mark,
    svg_picture,
    svg_polyline,
    svg_sign,
    svg_text,
    upright_bar,
)

PLANE_HEIGHT, LEFT = 240, 66  # how high the plane is, and what stands before it
PAD = 22  # at its ends, for marks that stand beside each other
APART = 7  # how far apart they stand at most
SAMPLE, LEGEND = 34, 20  # of a line in the legend, and how high a row of it


class ChartMark(NamedTuple):
    """A mark at a number, or at the foot.  `status`: one of STATUSES, whose sign and colour it has."""

    x: float
    y: float
    interval: tuple[float, float] | None
    tooltip: str  # is read where the pointer rests on it
    item: str = ""  # whose details it opens
    status: str = ""
    is_at_foot: bool = False


class ChartLine(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[ChartMark] = ()


class Plane(NamedTuple):
    """Mapping of numbers to places on the paper."""

    across: Scale
    up: Scale
    top: float

    def x(self, value: float) -> float:
        return LEFT + PAD + (WIDTH - LEFT - RIGHT - 2 * PAD) * self.across.part(value)

    def y(self, value: float) -> float:
        return self.top + PLANE_HEIGHT * (1 - self.up.part(value))


def line_chart(title: str, across: Scale, up: Scale, lines: Sequence[ChartLine]) -> str:
    places = list(_legend_places([line.name for line in lines]))
    plane = Plane(across, up, 8 + (LEGEND + places[-1][1] if len(lines) > 1 else 0))
    parts = [*bottom_scale(across, plane.x, plane.top, plane.top + PLANE_HEIGHT)]
    for tick in up.ticks:
        y = plane.y(tick)
        parts.append(svg_line("faint" if tick else "axis", LEFT, y, WIDTH - RIGHT, y))
        parts.append(svg_text(LEFT - 8, y + 4, up.tick_text(tick), "end"))
    parts.append(svg_text(14, plane.top + PLANE_HEIGHT / 2, up.title, turned=True))
    for look, each in enumerate(lines):
        parts.append(svg_group(look, [svg_polyline(look, [(plane.x(x), plane.y(y)) for x, y in each.points])]))
    for look, each in enumerate(lines):  # marks of several lines at the same place stand side by side
        parts += _marks(plane, look, each, (look - (len(lines) - 1) / 2) * min(APART, 2 * PAD / len(lines)))
    for look, (each, (x, y)) in enumerate(zip(lines, places, strict=True) if len(lines) > 1 else ()):
        sample = [svg_polyline(look, [(x, y + 6), (x + SAMPLE, y + 6)])] if each.points else []
        signs = dict.fromkeys(mark.status for mark in each.marks if mark.status)
        mark = svg_sign(next(iter(signs)), x + SAMPLE / 2, y + 6) if signs else svg_mark(look, x + SAMPLE / 2, y + 6)
        group = svg_group(look, [*sample, mark])
        parts.append(group + svg_text(x + SAMPLE + 7, y + 10, each.name, "start"))
    return svg_picture(title, plane.top + PLANE_HEIGHT + FOOT, parts)


def stairs(grown: Iterable[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """A line that goes up where something has grown, and is level in between."""
    points = [(start, 0.0)]
    for x, y in grown:
        points += [(x, points[-1][1]), (x, y)]
    return [*points, (end, points[-1][1])]


def _legend_places(names: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Places of the names in the legend, in rows."""
    x, y = float(LEFT), 4.0
    for name in names:
        width = SAMPLE + 26 + LETTER * len(name)
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, y = float(LEFT), y + LEGEND
        yield x, y
        x += width


def _marks(plane: Plane, look: int, each: ChartLine, aside: float) -> Iterator[str]:
    for one in each.marks:
        x = plane.x(one.x) + aside
        bar = upright_bar(x, *map(plane.y, one.interval)) if one.interval else ()
        y = plane.top + PLANE_HEIGHT if one.is_at_foot else plane.y(one.y)
        mark = svg_sign(one.status, x, y) if one.status else svg_mark(look, x, y)
        yield svg_group(look, [*bar, mark], one.tooltip, one.item)


ROW_HEIGHT, ROWS_TOP = 34, 6  # of a row; above all of them
WIDEST_NAME = 42  # letters of a name
ROW_PAD = 22


class ChartRow(NamedTuple):
    """Row of a chart.  `look` is the look of the line of this number in other charts."""

    name: str
    look: int
    mean: float
    interval: tuple[float, float] | None
    values: Sequence[float]
    tooltip: str
    item: str = ""


def rows_chart(title: str, across: Scale, rows: Sequence[ChartRow]) -> str:
    names = [row.name if len(row.name) <= WIDEST_NAME else f"{row.name[: WIDEST_NAME - 1]}…" for row in rows]
    left = 34 + LETTER * max(map(len, names))
    bottom = ROWS_TOP + ROW_HEIGHT * len(rows)

    def x(value: float) -> float:
        return left + ROW_PAD + (WIDTH - RIGHT - left - 2 * ROW_PAD) * across.part(value)

    parts = list(bottom_scale(across, x, ROWS_TOP, bottom))
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        y = ROWS_TOP + ROW_HEIGHT * number + 13
        group = [f'<circle class="one" cx="{x(value):.1f}" cy="{y + 12:.1f}" r="2.5"/>' for value in row.values]
        group += flat_bar(y, *map(x, row.interval)) if row.interval else ()
        group.append(svg_mark(row.look, x(row.mean), y))
        parts += [svg_text(left - 10, y + 4, name, "end"), svg_group(row.look, group, row.tooltip, row.item)]
    return svg_picture(title, bottom + FOOT, parts)
