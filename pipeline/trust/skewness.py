"""The skew guard: blocks that lean to rare large losses make a mean look better than it is.

Hall's transformation takes that out of a t.  It is used one way only: leaning to gains promotes nobody.  The skewness
is the mean of all ideas'.  Its own would say little of an idea: in few blocks it is mostly noise, and it is least seen
where luck was best.  To go by it, wholly or in part, promotes more noise that leans to losses, and finds less."""

from __future__ import annotations

from collections.abc import Sequence
from math import cbrt, fsum, sqrt


def skewness(blocks: Sequence[float]) -> float:
    """Of a sample, corrected for its size.  There must be some variance."""
    count = len(blocks)
    mean = fsum(blocks) / count
    off = [block - mean for block in blocks]
    largest = max(map(abs, off))
    off = [x / largest for x in off]  # else cubes of small numbers would vanish
    second, third = fsum(x * x for x in off) / count, fsum(x * x * x for x in off) / count
    return third / (second * sqrt(second)) * sqrt(count * (count - 1)) / max(count - 2, 1)


def leaning(ideas: Sequence[Sequence[float]]) -> float:
    """How much they lean to losses: 0 or less."""
    return min(0.0, fsum(map(skewness, ideas)) / len(ideas)) if ideas else 0.0


def guarded(t: float, lean: float, blocks: int) -> float:
    """A t above 0 made smaller, as Hall does; never larger, which he would do with what is beyond all doubt anyway."""
    if t <= 0 or lean == 0:
        return t
    a = lean / (3 * sqrt(blocks))
    return min(t, t + a * (t * t + 0.5) + a * a * t * t * t / 3)


def unguarded(t: float, lean: float, blocks: int) -> float:
    """The t that `guarded` makes into this one."""
    if t <= 0 or lean == 0:
        return t
    a = lean / (3 * sqrt(blocks))
    root = cbrt(1 + 3 * a * (t - a / 2))
    return max(t, 3 * (t - a / 2) / (root * root + root + 1))
