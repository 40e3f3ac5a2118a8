"""Distributions that are the same on every machine: random directions, the largest of several t by chance, Student's t.

numpy promises its raw streams but not its normal numbers, a sum of floats depends on the order that a processor takes,
and the C library's functions differ in their last bit.  Hence: bits come from SHAKE-128.  They look up a normal number
in a table of quantiles, on a grid so coarse that a last bit does not matter.  Numbers and coordinates are integers in
floats; their products stay below 2**53 in sum, so that every sum is exact in any order.  The rest are single IEEE
operations, which round alike everywhere.  Quantiles of Student's t come of functions of the C library, and are rounded
far above their last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from hashlib import shake_128
from itertools import count
from math import exp, inf, lgamma, log
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


BITS = 14  # of a number that is looked up
GRID = 2.0**12  # steps in 1 of a normal number: none is beyond 4.02, an integer below 2**15
SLAB = 64  # blocks at a time, for the sake of memory
UNIT = 2.0**30  # steps in the length of an idea's coordinates: sums stay below 2**45 * sqrt(blocks)


@cache
def _quantile_table() -> Array:
    import numpy as np

    half = 2 ** (BITS - 1)
    at = NormalDist().inv_cdf
    upper = np.array([round(at(0.5 + (i + 0.5) / (2 * half)) * GRID) for i in range(half)], dtype=float)
    return np.concatenate([-upper[::-1], upper])


def portable_normals(seed: int, stream: str, size: int) -> Array:
    """Draw `size` normal numbers, in steps of 1/GRID; another stream has others."""
    import numpy as np

    raw = shake_128(f"{seed}/{stream}".encode()).digest(2 * size)
    return _quantile_table().take(np.frombuffer(raw, dtype="<u2") >> (16 - BITS))


def round_to_grid(coordinates: Sequence[float], length: float) -> list[float]:
    """Round coordinates to steps of 1/UNIT of their length."""
    return [float(round(y / length * UNIT)) for y in coordinates]


def directions(seed: int, blocks: int, pairs: int) -> Iterator[tuple[int, Array]]:
    """Random directions, a column each, some blocks of all at a time: the first block, and numbers from there on."""
    for start in range(0, blocks, SLAB):
        some = min(SLAB, blocks - start)
        yield start, portable_normals(seed, f"direction/{start}", some * pairs).reshape(some, pairs)


def cosines(ideas: Sequence[Sequence[float]], seed: int, pairs: int) -> Array:
    """The cosines of the angles between each idea's coordinates (`on_grid`) and random directions: a row an idea, a
    column a direction.  The opposite directions have them with the other sign."""
    import numpy as np

    rows = np.array(ideas)
    total, squares = np.zeros((len(ideas), pairs)), np.zeros(pairs)
    for start, z in directions(seed, rows.shape[1], pairs):
        total += np.einsum("kb,bp->kp", rows[:, start : start + SLAB], z)
        squares += np.einsum("bp,bp->p", z, z)
    return total / (np.sqrt(np.maximum(squares, 1.0)) * UNIT)


def max_t_values(cosine: Array, prior: Sequence[float], df: float) -> list[float]:
    """The largest t over the ideas in each direction and in its opposite, in order of size.  `prior`: for each idea,
    the addition of the common noise to its squared length of 1."""
    import numpy as np

    rest = np.maximum((1 + np.array(prior))[:, None] - cosine * cosine, 1e-15)
    t = cosine / np.sqrt(rest / df)
    best: list[float] = np.sort(np.concatenate([t.max(axis=0), -t.min(axis=0)])).tolist()
    return best


# --- Student's t: its distribution by the incomplete beta function, its quantiles by bisection.
DECIMALS = 9
TINY = 1e-300


def t_cdf(t: float, df: float) -> float:
    """The probability of at most t."""
    square = t * t
    tail = 0.5 * _beta(df / (df + square), square / (df + square), df / 2, 0.5)
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The t that is not exceeded, with probability p."""
    if not (0 < p < 1 and df > 0):
        raise ValueError(f"there is no quantile {p} of t with {df} degrees of freedom")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        low, high = high, 2 * high
    while high - low > 1e-13 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return round((low + high) / 2, DECIMALS)


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function; `rest` is 1 - x, which may be too small to be seen in x."""
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    if x > (a + 1) / (a + b + 2):  # there the fraction converges slowly
        return 1 - _beta(rest, x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest))
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    total, before = d, inf
    for m in count(1):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1 / _nonzero(1 + term * d), _nonzero(1 + term / c)
            before, total = total, total * (c * d)
        if abs(total - before) <= 1e-16 * abs(total):
            return total
    raise AssertionError("the fraction converges")


def _nonzero(number: float) -> float:
    return number if abs(number) > TINY else TINY
