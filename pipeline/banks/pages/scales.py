"""The scales of charts: from where to where, what is marked on them, and how that is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import NamedTuple

PARTS = 8  # a scale has at most so many parts, or one more
STEPS = (1, 2, 5, 10)


class Scale(NamedTuple):
    title: str
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False
    percent: bool = False
    unit: str = ""

    def part(self, value: float) -> float:
        """How far along it is, from 0 to 1."""
        if self.logarithmic:
            return log10(max(value, self.low) / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def told(self, tick: float) -> str:
        number = f"{100 * tick:g} %" if self.percent else f"{tick:,.0f}" if tick >= 1e4 else f"{tick:g}"
        return f"{number}{self.unit}"


def amounts(title: str, high: float) -> Scale:
    """Of what is counted: from 0 to a round number that is not below `high`."""
    step = max(1.0, _step(max(1.0, high)))
    marked = max(1, ceil(round(high / step, 9)))
    return Scale(title, 0.0, marked * step, _every(step, 0, marked))


def shares(title: str) -> Scale:
    return Scale(title, 0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), percent=True)


def parts(title: str, low: float, high: float) -> Scale:
    """Of shares, or of differences of them, as far as there are some."""
    step = _step(high - low)
    first, last = floor(round(low / step, 9)), ceil(round(high / step, 9))
    return Scale(title, first * step, last * step, _every(step, first, last), percent=True)


def decades(low: float, high: float) -> Iterator[float]:
    """`low` and ten times as much, as often as that is not above `high`."""
    tick = low
    while tick <= high:
        yield tick
        tick = round(tick * 10, 9)


def _step(whole: float) -> float:
    rough = whole / PARTS
    power: float = 10.0 ** floor(log10(rough))
    return next(step * power for step in STEPS if step * power >= rough * (1 - 1e-9))


def _every(step: float, first: int, last: int) -> tuple[float, ...]:
    return tuple(round(at * step, 9) for at in range(first, last + 1))
