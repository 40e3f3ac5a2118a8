"""Where float noise ends: what decides is compared only after one of these roundings.

Means are sums without rounding errors (fsum).  A difference of means counts as none if it is at most NOISE of what the
rows themselves measure.  Relative numbers and scores are of the order of one: they keep 12 decimals.  All others (the
delta that breaks a tie, sums of money) keep 12 significant digits."""

from __future__ import annotations

from pipeline.trust.rounding import DIGITS, significant
from pipeline.trust.rounding import SAME as NOISE

__all__ = ["NOISE", "relative", "significant"]


def relative(number: float) -> float:
    """12 decimals; minus zero is zero."""
    return round(number, DIGITS) + 0.0
