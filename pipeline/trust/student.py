"""Student's t: its distribution by the incomplete beta function, its quantiles by bisection.

The functions of the C library differ by a last bit between machines: quantiles are rounded far above that."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from math import exp, inf, lgamma, log

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
