"""Calibration of a rule: how often it promotes ideas without effect, and how often it finds an effect.

For that the rule is vectorised.  Depths are arrays [depth, idea, block].  Sums are numpy's, so that a last digit may
differ between machines: nothing is promoted by this.  Depths share their random directions in groups, as if weighed
with the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.trust import series
from pipeline.trust.distributions import GRID, directions
from pipeline.trust.evidence import FEWEST_BLOCKS, POWER
from pipeline.trust.noise import Noise
from pipeline.trust.rule import TIE
from pipeline.trust.series import FEWEST_IDEAS, MOST_COMMON, trigamma

if TYPE_CHECKING:
    from pipeline.trust.distributions import Array

    Flags = np.ndarray[Any, np.dtype[np.bool_]]  # [depth, idea]


Z_95 = 1.959964  # of a two-sided 95 % interval
LEAST_DRAWS = 2_000
TAIL_DRAWS = 20  # random directions that should lie beyond the critical one, at least
# Of the search for the effect that is found with POWER, in standard errors.
FIRST_EFFECT, LARGEST_EFFECT, HALVINGS = 4.0, 64.0, 5

GROUP = 50  # depths with the same directions
LARGEST_ARRAY = 4_000_000  # numbers in one array
RHOS = 181  # values from 0 to LARGEST_RHO for which the sizes of coordinates are computed


class Proportion(NamedTuple):
    """A number of hits among a number of tries."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval, 95 %."""
        p, n = self.rate, self.of
        middle, wide = p + Z_95 * Z_95 / (2 * n), Z_95 * sqrt(p * (1 - p) / n + Z_95 * Z_95 / (4 * n * n))
        low, high = ((middle + side * wide) / (1 + Z_95 * Z_95 / n) for side in (-1, 1))
        return max(0.0, low), min(1.0, high)


class Rule(NamedTuple):
    """A rule of promotion.  `level`: alpha of one depth.  `tested` False: a mean that is not worse is enough.
    `repeats`: of the split whose folds the blocks are."""

    level: float
    smallest_effect: float = 0.0
    ordered: bool = False
    rho: float | None = None
    tested: bool = True
    repeats: int = 1

    def passes(self, depths: Array, seed: int) -> Flags:
        """Ideas that the test tells from chance, whether worth having or not."""
        if not self.tested:
            return self.worth_having(depths)
        if depths.shape[2] < FEWEST_BLOCKS:
            return np.zeros(depths.shape[:2], bool)
        draws = max(LEAST_DRAWS, 2 * round(TAIL_DRAWS / self.level / 2))
        how: dict[str, Any] = {"ordered": self.ordered, "rho": self.rho, "repeats": self.repeats}
        found: Flags = p_values(depths, seed=seed, draws=draws, **how) <= self.level
        return found

    def worth_having(self, depths: Array) -> Flags:
        """Ideas with a mean of at least the smallest effect."""
        return np.asarray(depths.mean(axis=2) >= self.smallest_effect)

    def shares(self, depths: Array, seed: int, first: int | None = None) -> tuple[Proportion, Proportion]:
        """The shares of depths in which an idea, or one of the `first`, passes the test; and is promoted."""
        passed = self.passes(depths, seed)[:, :first]
        wins = passed & self.worth_having(depths)[:, :first]
        either, each = (Proportion(int(flags.any(axis=1).sum()), len(depths)) for flags in (passed, wins))
        return either, each


class Detection(NamedTuple):
    """One idea with an effect among others without: the shares of depths that pass the test, and promote it."""

    effect: float
    passed: Proportion
    promoted: Proportion


class SimulatedSetting(NamedTuple):
    """Depths with so many ideas and blocks.  `passed`: those where the test lets an idea pass though none has an
    effect, `promoted`: those where one is promoted.  `error`: the standard error of a mean; `detectable`: the effect
    that passes the test with POWER, if there is one."""

    ideas: int
    blocks: int
    passed: Proportion
    promoted: Proportion
    error: float
    power: tuple[Detection, ...] = ()
    detectable: float | None = None


def measure_promotions(noise: Noise, rule: Rule, ideas: int, blocks: int, depths: int, seed: int) -> SimulatedSetting:
    """Measure how often noise is promoted."""
    drawn = noise.depths(seed, depths, ideas, blocks)
    return SimulatedSetting(ideas, blocks, *rule.shares(drawn, seed), float(drawn.mean(axis=2).std()))


def with_power(
    cell: SimulatedSetting, noise: Noise, rule: Rule, effects: Sequence[float], depths: int, seed: int
) -> SimulatedSetting:
    """The cell with the power to find each effect, and the effect found with POWER, by bisection, if one is."""
    drawn = noise.depths(seed, depths, cell.ideas, cell.blocks)

    def detection(effect: float) -> Detection:
        """The detection of an effect of the first idea."""
        planted = drawn.copy()
        planted[:, 0] += effect
        return Detection(effect, *rule.shares(planted, seed, first=1))

    def is_found(errors: float) -> bool:
        return detection(errors * cell.error).passed.rate >= POWER

    cell = cell._replace(power=tuple(map(detection, effects)))
    low, high = FIRST_EFFECT / 2, FIRST_EFFECT
    while not is_found(high):
        low, high = high, 2 * high
        if high > LARGEST_EFFECT:
            return cell
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return cell._replace(detectable=high * cell.error)


def p_values(
    depths: Array,
    *,
    seed: int,
    ordered: bool = False,
    rho: float | None = None,
    repeats: int = 1,
    draws: int = 2_000,
    group: int = GROUP,
) -> Array:
    """P values [depth, idea]; the depths from n * group on have the seed `seed + n`.
    `repeats`: of the split whose folds the blocks are, one repeat after the other."""
    group = max(1, min(group, LARGEST_ARRAY // (depths.shape[1] * draws)))
    rows = _repeat_rows(depths, repeats) if repeats > 1 else _rows(depths, ordered, rho)
    lengths = np.square(rows).sum(axis=2)
    df, squares = _prior(lengths, rows.shape[2])
    t = _observed_t(depths, lengths, df, squares, rows.shape[2], depths.shape[2] // repeats)
    parts = []
    for n, start in enumerate(range(0, len(depths), group)):
        part = slice(start, start + group)
        random = _directions(seed + n, rows.shape[2], draws // 2)
        best = _best(rows[part], lengths[part], df[part], squares[part], random)
        floor = t[part] - TIE * np.maximum(1.0, abs(t[part]))
        reached = np.stack([(best >= floor[:, k, None]).sum(axis=1) for k in range(t.shape[1])], axis=1)
        parts.append((1 + reached) / (draws + 1))
    return np.concatenate(parts)


@lru_cache(maxsize=128)
def _directions(seed: int, blocks: int, pairs: int) -> Array:
    z = np.concatenate([slab for _, slab in directions(seed, blocks, pairs)]) / GRID
    return np.asarray(z / np.sqrt(np.square(z).sum(axis=0)))


def _rows(depths: Array, ordered: bool, rho: float | None) -> Array:
    """Coordinates of the differences; blocks without order are their own."""
    if not ordered:
        return depths
    blocks = depths.shape[2]
    rows = depths @ np.array(series.dct_rows(blocks)).T
    if rho is not None:
        return np.asarray(rows / np.array(series.row_sizes(blocks, rho)))
    # the autocorrelation of each depth, as by `series.autocorrelation`
    off = depths - depths.mean(axis=2, keepdims=True)
    lag = ((off[:, :, 1:] * off[:, :, :-1]).sum(axis=2) / np.square(off).sum(axis=2)).mean(axis=1)
    rhos = np.clip(series.unbiased_rho(lag, blocks) + series.RHO_SAFETY / np.sqrt(blocks), 0.0, series.LARGEST_RHO)
    place = np.rint(rhos / series.LARGEST_RHO * (RHOS - 1)).astype(int)
    return np.asarray(rows / _sizes(blocks)[place][:, None, :])


def _repeat_rows(depths: Array, repeats: int) -> Array:
    """Coordinates of folds of repeats, as by `series.repeat_coordinates`."""
    count, ideas, blocks = depths.shape
    folds = blocks // repeats
    within = depths.reshape(count, ideas, repeats, folds) @ np.array(series.dct_rows(folds)[1:]).T
    first = depths.mean(axis=2, keepdims=True) * np.sqrt(folds)
    return np.concatenate([first, within.reshape(count, ideas, -1)], axis=2)


@lru_cache(maxsize=8)
def _sizes(blocks: int) -> Array:
    """The size of each row, for each of RHOS."""
    rhos = np.linspace(0, series.LARGEST_RHO, RHOS)[:, None]
    total = series.weighted_variance(np.array(series.dct_rows(blocks)).T, rhos)
    return np.asarray(np.sqrt(total / total[:, :1]))


def _prior(lengths: Array, blocks: int) -> tuple[Array, Array]:
    """Number of blocks that the common noise counts for, for each depth; for each idea, its addition to the
    squares."""
    depths, ideas = lengths.shape
    if ideas < FEWEST_IDEAS:
        return np.zeros(depths), np.zeros_like(lengths)
    spread = np.log(lengths).var(axis=1, ddof=1) - trigamma(blocks / 2)
    dfs = np.geomspace(1.0, max(1.0, 2.0 * (blocks - 1)), 400)
    spreads = np.array([trigamma(df / 2) for df in dfs])
    df, common = np.interp(-spread, -spreads, dfs), np.median(lengths, axis=1, keepdims=True)
    return df, df[:, None] * np.minimum(common, MOST_COMMON * lengths) / blocks


def _observed_t(depths: Array, lengths: Array, prior_df: Array, squares: Array, width: int, worth: int) -> Array:
    """The t of each idea; `width` and `worth` as in `rule`."""
    blocks, means = depths.shape[2], depths.mean(axis=2)
    rest = np.maximum(lengths - worth * means**2, 0.0) + squares
    t = means / np.sqrt(rest / (width - 1 + prior_df)[:, None] / worth)
    # the leaning of each depth, for all of its ideas
    off = depths - means[:, :, None]
    second, third = np.square(off).mean(axis=2), (off * off * off).mean(axis=2)
    own = third / second**1.5 * np.sqrt(blocks * (blocks - 1)) / max(blocks - 2, 1)
    lean = np.minimum(0.0, own.mean(axis=1, keepdims=True))
    # each t guarded against it, as by `pooling.skew_guarded`
    applies = (t > 0) & (lean < 0)
    a = np.where(applies, lean, -1.0) / (3 * np.sqrt(worth))
    return np.asarray(np.where(applies, np.minimum(t, t + a * (t * t + 0.5) + a * a * t * t * t / 3), t))


def _best(rows: Array, lengths: Array, prior_df: Array, squares: Array, directions: Array) -> Array:
    """The largest t of any idea in each direction, and in its opposite: [depth, draw]."""
    depths, ideas, blocks = rows.shape
    units = (rows / np.sqrt(lengths)[:, :, None]).reshape(-1, blocks)
    cosine = (units @ directions).reshape(depths, ideas, -1)
    rest = np.square(cosine)
    np.subtract(1 + (squares / lengths)[:, :, None], rest, out=rest)
    np.maximum(rest, 1e-15, out=rest)
    rest /= (blocks - 1 + prior_df)[:, None, None]
    np.sqrt(rest, out=rest)
    cosine /= rest
    return np.concatenate([cosine.max(axis=1), -cosine.min(axis=1)], axis=1)
