"""The skew guard: blocks that lean to rare large losses make a mean look better than it is.

Hall's transformation takes that out of a t.  It is used one way only: leaning to gains promotes nobody.  A skewness
seen in few blocks is mostly noise, and it is least seen where luck was best: so it is taken from all ideas of the depth
for the most part.  To take half of it from the idea itself promotes more noise that leans to losses, and finds less."""

from __future__ import annotations

from collections.abc import Sequence
from math import cbrt, fsum, sqrt

OWN = 0.25  # the part of a skewness that is an idea's own


def skewness(blocks: Sequence[float]) -> float:
    """Of a sample, corrected for its size.  There must be some variance."""
    count = len(blocks)
    mean = fsum(blocks) / count
    off = [block - mean for block in blocks]
    largest = max(map(abs, off))
    off = [x / largest for x in off]  # else cubes of small numbers would vanish
    second, third = fsum(x * x for x in off) / count, fsum(x * x * x for x in off) / count
    return third / (second * sqrt(second)) * sqrt(count * (count - 1)) / max(count - 2, 1)


def leanings(ideas: Sequence[Sequence[float]]) -> list[float]:
    """Of each idea, how much it leans to losses: 0 or less."""
    own = [skewness(blocks) for blocks in ideas]
    common = fsum(own) / len(own) if own else 0.0
    return [min(0.0, OWN * skew + (1 - OWN) * common) for skew in own]


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
