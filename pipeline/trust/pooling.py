"""Pooled noise of all ideas of a depth: a common prior for variances, and a guard against common skewness.

The prior is estimated from squared lengths around zero, not around the means: these do not change when the blocks are
rotated, and so the test stays exact.

The skew guard: blocks that lean to rare large losses make a mean look better than it is.  Hall's transformation takes
that out of a t.  It is used one way only: leaning to gains promotes no idea.  The skewness is the mean of all ideas'.
An idea's own says little: in few blocks it is mostly noise, and it shows least where luck was best.  To use it, wholly
or in part, promotes more noise that leans to losses, and finds less."""

from __future__ import annotations

from collections.abc import Sequence
from math import cbrt, fsum, log, sqrt
from statistics import median
from typing import NamedTuple

FEWEST_IDEAS = 3  # with fewer, the spread of variances does not show
MOST_COMMON = 4.0  # the most common noise of an idea, in units of its own variance


class Prior(NamedTuple):
    """The common variance of a block, and the number of blocks that it counts for."""

    df: float
    variance: float

    def squares(self, length: float, blocks: int) -> float:
        """The addition of the common noise to the squares of an idea, bounded: a few ideas that wreck everything must
        not make the others look as noisy."""
        return self.df * min(self.variance, MOST_COMMON * length / blocks)


def prior(lengths: Sequence[float], blocks: int) -> Prior:
    """Smyth's prior: variances that differ by no more than chance count for much, others for little."""
    if len(lengths) < FEWEST_IDEAS:
        return Prior(0.0, 0.0)
    logs = [log(length) for length in lengths]
    mean = fsum(logs) / len(logs)
    spread = fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1) - trigamma(blocks / 2)
    return Prior(_prior_df(spread, 2.0 * (blocks - 1)), median(lengths) / blocks)


def _prior_df(spread: float, most: float) -> float:
    """The degrees of freedom with trigamma(df / 2) = spread, from 1 to `most`; rounded to hide the last bits of log."""
    low, high = 1.0, most
    if trigamma(high / 2) >= spread:
        return high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if trigamma(middle / 2) > spread else (low, middle)
    return round(low, 6)


def trigamma(x: float) -> float:
    total = 0.0
    while x < 10:
        total, x = total + 1 / (x * x), x + 1
    y = 1 / (x * x)
    return total + 1 / x + y / 2 + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))


def skewness(blocks: Sequence[float]) -> float:
    """The skewness of a sample with some variance, corrected for its size."""
    count = len(blocks)
    mean = fsum(blocks) / count
    off = [block - mean for block in blocks]
    largest = max(map(abs, off))
    off = [x / largest for x in off]  # else cubes of small numbers would vanish
    second, third = fsum(x * x for x in off) / count, fsum(x * x * x for x in off) / count
    return third / (second * sqrt(second)) * sqrt(count * (count - 1)) / max(count - 2, 1)


def common_skewness(ideas: Sequence[Sequence[float]]) -> float:
    """The leaning of ideas to losses: 0 or less."""
    return min(0.0, fsum(map(skewness, ideas)) / len(ideas)) if ideas else 0.0


def skew_guarded(t: float, lean: float, blocks: int) -> float:
    """A t above 0 made smaller by Hall's transformation; never larger, as it would be far from all doubt."""
    if t <= 0 or lean == 0:
        return t
    a = lean / (3 * sqrt(blocks))
    return min(t, t + a * (t * t + 0.5) + a * a * t * t * t / 3)


def undo_skew_guard(t: float, lean: float, blocks: int) -> float:
    """The t that `skew_guarded` makes into this one."""
    if t <= 0 or lean == 0:
        return t
    a = lean / (3 * sqrt(blocks))
    root = cbrt(1 + 3 * a * (t - a / 2))
    return max(t, 3 * (t - a / 2) / (root * root + root + 1))
