"""Vectorised version of the rule, for simulations.

Depths are arrays [depth, idea, block].  Sums are numpy's, so that a last digit may differ between machines: nothing is
promoted by this.  Depths share their random directions in groups, as if weighed with the same seed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pipeline.trust import series
from pipeline.trust.distributions import GRID, directions
from pipeline.trust.pooling import FEWEST_IDEAS, MOST_COMMON, trigamma
from pipeline.trust.rule import TIE

if TYPE_CHECKING:
    from pipeline.trust.distributions import Array


GROUP = 50  # depths with the same directions
LARGEST_ARRAY = 4_000_000  # numbers in one array
RHOS = 181  # values from 0 to LARGEST_RHO for which the sizes of coordinates are computed


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
