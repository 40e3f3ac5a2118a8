"""How much the noise of one idea is told by that of the others: a common prior for their variances.

It is found from squared lengths around zero, not around the means: these do not change when the blocks are rotated, and
so the test stays exact."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, log
from statistics import median
from typing import NamedTuple

FEWEST = 3  # ideas, for a spread of variances to be seen
MOST = 4.0  # of its own variance that an idea gets for common noise


class Prior(NamedTuple):
    """The variance of a block that ideas have in common, and how many blocks that counts for."""

    df: float
    variance: float

    def squares(self, length: float, blocks: int) -> float:
        """What the common noise adds to the squares of an idea.  A few ideas that wreck everything must not make the
        others look as noisy as they are."""
        return self.df * min(self.variance, MOST * length / blocks)


NONE = Prior(0.0, 0.0)


def prior(lengths: Sequence[float], blocks: int) -> Prior:
    """Smyth's: variances that differ by no more than chance count for a lot, others for little."""
    if len(lengths) < FEWEST:
        return NONE
    logs = [log(length) for length in lengths]
    mean = fsum(logs) / len(logs)
    spread = fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1) - trigamma(blocks / 2)
    return Prior(_df(spread, 2.0 * (blocks - 1)), median(lengths) / blocks)


def _df(spread: float, most: float) -> float:
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
