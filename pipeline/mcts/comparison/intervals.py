"""Means over seeds and the intervals they lie in: Student's t over one value for each seed.

An interval says what other seeds would give on the same goals.  It says nothing of other goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, fsum, inf, log, sqrt
from typing import Any

from pipeline.trust.student import quantile

CONFIDENCE = 0.95
DIGITS = 6
SHARE, DIFFERENCE, AMOUNT = (0.0, 1.0), (-1.0, 1.0), (0.0, inf)  # where such numbers can lie

Estimate = Mapping[str, Any]


def over_seeds(values: Mapping[int, float], bounds: tuple[float, float]) -> Estimate:
    """From one value there is no interval, from none no mean either.  `same`: all seeds agree."""
    mean, low, high = _interval(list(values.values()))
    lowest, highest = bounds
    clipped = (mean, low if low is None else max(low, lowest), high if high is None else min(high, highest))
    return _estimate(values, clipped)


def ratio_over_seeds(values: Mapping[int, float]) -> Estimate:
    """The same of ratios: their geometric mean, and the interval on the scale of logarithms."""
    return _estimate(values, _interval([log(value) for value in values.values()]), exp)


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    half = len(ordered) // 2
    return mean(ordered[half:][:1] if len(ordered) % 2 else ordered[half - 1 : half + 1]) if ordered else None


def rounded(number: float) -> float:
    """Minus zero is zero."""
    return round(number, DIGITS) + 0.0


def _interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    middle, df = mean(values), len(values) - 1
    if not df:
        return middle, None, None
    spread = sqrt(fsum((value - middle) ** 2 for value in values) / df / len(values))
    by = quantile((1 + CONFIDENCE) / 2, df) * spread
    return middle, middle - by, middle + by


def _estimate(
    values: Mapping[int, float], interval: Sequence[float | None], scale: Callable[[float], float] = float
) -> Estimate:
    of = {str(seed): rounded(value) for seed, value in values.items()}
    figures = (None if each is None else rounded(scale(each)) for each in interval)
    same = len(of) > 1 and len({*of.values()}) == 1
    return {**dict(zip(("mean", "low", "high"), figures, strict=True)), "same": same, "of": of}
