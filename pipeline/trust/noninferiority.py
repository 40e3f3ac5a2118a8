"""Guards: a metric that may get worse by less than a margin, as far as the blocks can tell.

A guard passes when its one-sided 95 % bound is above -margin, and has failed when the bound on the other side is below
it.  All guards must pass, so they need no correction for being several: each could only refuse."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import NamedTuple

from pipeline.trust import series
from pipeline.trust.rounding import STEADY, significant
from pipeline.trust.student import quantile
from pipeline.trust.verdicts import FEWEST_BLOCKS

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
CONFIDENCE = 0.95
ERRORS = 3  # standard errors that a margin should be worth: then a harmless change passes nine times in ten


class Guarded(NamedTuple):
    """`limit`: the loss that is excluded, to be held against -margin.  `tight`: the margin is too small for the data,
    a harmless change would often be undecided."""

    mean: float
    se: float
    t: float
    df: int
    limit: float
    verdict: str
    tight: bool


def guard(deltas: Sequence[float], margin: float, *, ordered: bool = False, rho: float | None = None) -> Guarded:
    """`deltas`: per block, more is better; `margin`: the loss that is put up with, 0 or more."""
    mean, df = fsum(deltas) / len(deltas), len(deltas) - 1
    largest = max(map(abs, deltas))
    if max(deltas) - min(deltas) <= STEADY * largest:
        return _steady(mean, margin, df)
    error = _error(deltas, mean, ordered, rho)
    reach = quantile(CONFIDENCE, df) * error
    verdict = PASSED if mean - reach > -margin else FAILED if mean + reach < -margin else UNDECIDED
    verdict = UNDECIDED if len(deltas) < FEWEST_BLOCKS else verdict
    mean, error, t, limit = map(significant, (mean, error, (mean + margin) / error, mean - reach))
    return Guarded(mean, error, t, df, limit, verdict, margin < ERRORS * error)


def _steady(mean: float, margin: float, df: int) -> Guarded:
    """The same in every block: there is no noise to allow for."""
    verdict = UNDECIDED if df + 1 < FEWEST_BLOCKS else PASSED if mean >= -margin else FAILED
    return Guarded(significant(mean), 0.0, 0.0, df, significant(mean), verdict, False)


def _error(deltas: Sequence[float], mean: float, ordered: bool, rho: float | None) -> float:
    count = len(deltas)
    if not ordered:
        return sqrt(fsum((delta - mean) ** 2 for delta in deltas) / (count - 1) / count)
    used = series.autocorrelation([deltas]) if rho is None else rho
    noise = series.coordinates(deltas, used)[1:]
    return sqrt(fsum(y * y for y in noise) / (count - 1) / count)
