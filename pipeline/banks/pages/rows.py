"""A chart with a row for each of some figures: its name, its mean, the interval, and each value that they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipeline.banks.pages.drawing import FOOT, LETTER, RIGHT, WIDTH, flat_bar, foot, group, mark, picture, text
from pipeline.banks.pages.scales import Scale

HIGH, TOP = 34, 6  # of a row; above all of them
WIDEST = 42  # letters of a name
PAD = 22


class Row(NamedTuple):
    """`look`: that of the line of this number in other charts."""

    name: str
    look: int
    mean: float
    interval: tuple[float, float] | None
    values: Sequence[float]
    told: str


def rows_chart(title: str, across: Scale, rows: Sequence[Row]) -> str:
    names = [row.name if len(row.name) <= WIDEST else f"{row.name[: WIDEST - 1]}…" for row in rows]
    left = 34 + LETTER * max(map(len, names))
    bottom = TOP + HIGH * len(rows)

    def x(value: float) -> float:
        return left + PAD + (WIDTH - RIGHT - left - 2 * PAD) * across.part(value)

    parts = list(foot(across, x, TOP, bottom))
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        y = TOP + HIGH * number + 13
        parts += [text(left - 10, y + 4, name, "end"), group(row.look, _row(row, x, y), row.told)]
    return picture(title, bottom + FOOT, parts)


def _row(row: Row, x: Callable[[float], float], y: float) -> Iterator[str]:
    for value in row.values:
        yield f'<circle class="one" cx="{x(value):.1f}" cy="{y + 12:.1f}" r="2.5"/>'
    if row.interval:
        yield from flat_bar(y, *map(x, row.interval))
    yield mark(row.look, x(row.mean), y)
