"""Charts of lines, with marks and the intervals they lie in, and a legend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipeline.banks.pages.drawing import (
    FOOT,
    LETTER,
    RIGHT,
    WIDTH,
    foot,
    group,
    line,
    mark,
    picture,
    straight,
    text,
    upright_bar,
)
from pipeline.banks.pages.scales import Scale

HIGH, LEFT = 240, 66  # how high the plane is, and what stands before it
PAD = 22  # at its ends, for marks that stand beside each other
APART = 7  # how far apart they stand at most
SAMPLE, LEGEND = 34, 20  # of a line in the legend, and how high a row of it


class Mark(NamedTuple):
    x: float
    y: float
    interval: tuple[float, float] | None
    told: str  # is read where the pointer rests on it


class Line(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]
    marks: Sequence[Mark] = ()


class Plane(NamedTuple):
    """Where on the paper the numbers are."""

    across: Scale
    up: Scale
    top: float

    def x(self, value: float) -> float:
        return LEFT + PAD + (WIDTH - LEFT - RIGHT - 2 * PAD) * self.across.part(value)

    def y(self, value: float) -> float:
        return self.top + HIGH * (1 - self.up.part(value))


def chart(title: str, across: Scale, up: Scale, lines: Sequence[Line]) -> str:
    places = list(_places([line.name for line in lines]))
    plane = Plane(across, up, 8 + (LEGEND + places[-1][1] if len(lines) > 1 else 0))
    parts = [*foot(across, plane.x, plane.top, plane.top + HIGH), *_side(plane)]
    parts += [group(look, [_drawn(plane, look, each)]) for look, each in enumerate(lines)]
    parts += [part for look, each in enumerate(lines) for part in _marks(plane, look, each, _aside(look, len(lines)))]
    if len(lines) > 1:
        parts += [_entry(look, each.name, *place) for look, (each, place) in enumerate(zip(lines, places, strict=True))]
    return picture(title, plane.top + HIGH + FOOT, parts)


def stairs(grown: Iterable[tuple[float, float]], start: float, end: float) -> list[tuple[float, float]]:
    """A line that goes up where something has grown, and is level in between."""
    points = [(start, 0.0)]
    for x, y in grown:
        points += [(x, points[-1][1]), (x, y)]
    return [*points, (end, points[-1][1])]


def _places(names: Sequence[str]) -> Iterator[tuple[float, float]]:
    """Where each has its place in the legend, in rows."""
    x, y = float(LEFT), 4.0
    for name in names:
        width = SAMPLE + 26 + LETTER * len(name)
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, y = float(LEFT), y + LEGEND
        yield x, y
        x += width


def _entry(look: int, name: str, x: float, y: float) -> str:
    sample = line(look, [(x, y + 6), (x + SAMPLE, y + 6)])
    return group(look, [sample, mark(look, x + SAMPLE / 2, y + 6)]) + text(x + SAMPLE + 7, y + 10, name, "start")


def _side(plane: Plane) -> Iterator[str]:
    for tick in plane.up.ticks:
        y = plane.y(tick)
        yield straight("faint" if tick else "axis", LEFT, y, WIDTH - RIGHT, y)
        yield text(LEFT - 8, y + 4, plane.up.told(tick), "end")
    yield text(14, plane.top + HIGH / 2, plane.up.title, turned=True)


def _drawn(plane: Plane, look: int, each: Line) -> str:
    return line(look, [(plane.x(x), plane.y(y)) for x, y in each.points])


def _aside(look: int, lines: int) -> float:
    """Marks of several lines at the same place stand side by side."""
    return (look - (lines - 1) / 2) * min(APART, 2 * PAD / lines)


def _marks(plane: Plane, look: int, each: Line, aside: float) -> Iterator[str]:
    for one in each.marks:
        x = plane.x(one.x) + aside
        bar = upright_bar(x, *map(plane.y, one.interval)) if one.interval else ()
        yield group(look, [*bar, mark(look, x, plane.y(one.y))], one.told)
