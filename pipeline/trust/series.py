"""Blocks: one difference a block, rounding of float noise, blocks in time order, repeated splits, noise that is pooled.

Configs are reduced first, only blocks show chance.  Numbers are rounded before anything is decided by them.

In time order there are coordinates in which autocorrelated noise looks like independent noise.  The cosines of the
DCT-II are nearly the main axes of AR(1) noise.  Row 0 is the mean; each other row is divided by how much more or less
it varies than row 0 does, so that it shows the noise of the mean.

Repeats of a split measure the same data again: folds of one repeat are nearly independent, the means of repeats are all
nearly the same.  So the mean of R repeats of F folds varies as that of F folds does.  What shows its noise is how folds
differ within their repeat; how repeats differ shows only how the data were cut, and is left out.

The noise of all ideas of a depth is pooled: a common prior for variances, a guard against common skewness.  The prior
is estimated from squared lengths around zero, not around the means: these do not change when the blocks are rotated,
and so the test stays exact.

The skew guard: blocks that lean to rare large losses make a mean look better than it is.  Hall's transformation takes
that out of a t.  It is used one way only: leaning to gains promotes no idea.  The skewness is the mean of all ideas'.
An idea's own says little: in few blocks it is mostly noise, and it shows least where luck was best.  To use it, wholly
or in part, promotes more noise that leans to losses, and finds less."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import cbrt, cos, fsum, log, pi, sqrt
from operator import mul
from statistics import median
from typing import Any, NamedTuple, TypeVar

DIGITS = 12
SAME = 1e-12  # in units of the values: differences up to it are none
STEADY = 1e-9  # in units of the largest difference: blocks that vary by up to it have no noise

FEWEST_IDEAS = 3  # with fewer, the spread of variances does not show
MOST_COMMON = 4.0  # the most common noise of an idea, in units of its own variance


def round_significant(number: float) -> float:
    """Round to 12 digits; minus zero is zero."""
    return float(f"{number:.{DIGITS}g}") + 0.0


def is_constant(blocks: Sequence[float]) -> bool:
    """True when all blocks are the same."""
    return max(blocks) - min(blocks) <= STEADY * max(map(abs, blocks))


def reduce_configs(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean over the configs in each block, of a table with a row a config and a column a block."""
    return [round_significant(fsum(column) / len(rows)) for column in zip(*rows, strict=True)]


def differences(candidate: Sequence[float], baseline: Sequence[float], sign: float = 1.0) -> list[float]:
    """Differences block by block, more is better; those of float noise are zero."""
    return [
        round_significant(sign * (new - old)) if abs(new - old) > SAME * max(abs(new), abs(old)) else 0.0
        for new, old in zip(candidate, baseline, strict=True)
    ]


LARGEST_RHO = 0.9  # a larger one cannot be told from a trend
RHO_SAFETY = 0.25  # the addition to an estimated rho, times 1/sqrt(blocks)


@lru_cache(maxsize=8)
def dct_rows(blocks: int) -> tuple[tuple[float, ...], ...]:
    """The orthonormal DCT-II."""
    first = (1 / sqrt(blocks),) * blocks
    size = sqrt(2 / blocks)
    others = (tuple(size * cos(pi * j * (i + 0.5) / blocks) for i in range(blocks)) for j in range(1, blocks))
    return (first, *others)


@lru_cache(maxsize=64)
def row_sizes(blocks: int, rho: float) -> tuple[float, ...]:
    """The standard deviation of each row under AR(1) noise, over that of row 0."""
    variances = [weighted_variance(row, rho) for row in dct_rows(blocks)]
    return tuple(sqrt(v / variances[0]) for v in variances)


def weighted_variance(row: Iterable[Any], rho: Any) -> Any:
    """The variance of the weighted sum of blocks with autocorrelation rho ** distance; also of many rows, as arrays."""
    before, total = 0.0, 0.0
    for weight in row:
        total = total + weight * (weight + 2 * before)
        before = rho * (before + weight)
    return total


def coordinates(blocks: Sequence[float], rho: float) -> list[float]:
    """Coordinates of blocks: the first is sqrt(B) times the mean; under AR(1) noise all vary alike."""
    count = len(blocks)
    return [
        fsum(map(mul, row, blocks)) / size for row, size in zip(dct_rows(count), row_sizes(count, rho), strict=True)
    ]


T = TypeVar("T")


def by_repeat(blocks: Sequence[T], repeats: Sequence[int]) -> list[list[T]]:
    """The blocks of each repeat, by the number of the repeat that each block is of."""
    if len(blocks) != len(repeats):
        raise ValueError(f"{len(blocks)} blocks are not those of the {len(repeats)} that are said to repeat a split")
    groups: dict[int, list[T]] = {}
    for block, repeat in zip(blocks, repeats, strict=True):
        groups.setdefault(repeat, []).append(block)
    if len({*map(len, groups.values())}) != 1 or len(groups) < 2 or len(blocks) < 2 * len(groups):
        raise ValueError("repeats must be two or more, all of equally many folds, two or more")
    return [*groups.values()]


def repeat_coordinates(groups: Sequence[Sequence[float]]) -> list[float]:
    """Coordinates of folds by repeat: the first is sqrt(F) times the mean; then how folds differ within each repeat."""
    folds, total = len(groups[0]), fsum(block for group in groups for block in group)
    first = total / (len(groups) * folds) * sqrt(folds)
    return [first, *(fsum(map(mul, row, group)) for group in groups for row in dct_rows(folds)[1:])]


def has_no_noise(blocks: Sequence[float], repeats: Sequence[int] | None) -> bool:
    """True when nothing shows how large chance is: all blocks are the same, or all folds of each repeat."""
    return is_constant(blocks) or (bool(repeats) and all(map(is_constant, by_repeat(blocks, repeats or ()))))


def rho_to_use(ideas: Sequence[Sequence[float]], ordered: bool, rho: float | None) -> float:
    """The rho to use: 0 without order, the given one, or an estimate."""
    if rho is not None and not 0 <= rho <= LARGEST_RHO:
        raise ValueError(f"rho {rho} is not from 0 to {LARGEST_RHO}")
    if not ordered or not ideas:
        return 0.0
    return autocorrelation(ideas) if rho is None else rho


def autocorrelation(ideas: Sequence[Sequence[float]]) -> float:
    """Estimate rho by the lag-1 correlation over all ideas, a little higher: too low a rho promotes noise, too high a
    one only costs power."""
    blocks, lags = len(ideas[0]), []
    for idea in ideas:
        mean = fsum(idea) / blocks
        off = [block - mean for block in idea]
        lags.append(fsum(map(mul, off[1:], off[:-1])) / fsum(map(mul, off, off)))
    rho: float = unbiased_rho(fsum(lags) / len(ideas), blocks) + RHO_SAFETY / sqrt(blocks)
    return round(min(LARGEST_RHO, max(0.0, rho)), 6)


def unbiased_rho(lag: Any, blocks: int) -> Any:
    """A lag-1 correlation, or an array of them, corrected for its bias."""
    return lag + (1 + 3 * lag) / (blocks - 1)


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
