"""The rule on many depths at once, for simulations: what `rule.weigh` says of each, at a small part of its cost.

Depths are arrays [depth, idea, block].  Sums are numpy's, so that a last digit may differ between machines: nothing is
promoted by this.  Depths share their random directions in groups, as if they had been weighed with the same seed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pipeline.trust import series
from pipeline.trust.draws import GRID, directions
from pipeline.trust.pooling import FEWEST_IDEAS, MOST_COMMON, trigamma
from pipeline.trust.rule import TIE

if TYPE_CHECKING:
    from pipeline.trust.draws import Array

GROUP = 50  # depths with the same directions
LARGEST_ARRAY = 4_000_000  # numbers in one array
RHOS = 181  # from 0 to series.MOST, at which the sizes of coordinates are reckoned


def p_values(
    depths: Array, *, seed: int, ordered: bool = False, rho: float | None = None, draws: int = 2_000, group: int = GROUP
) -> Array:
    """[depth, idea]; the depths from n * group on are weighed with the seed `seed + n`."""
    group = max(1, min(group, LARGEST_ARRAY // (depths.shape[1] * draws)))
    rows = _rows(depths, ordered, rho)
    lengths = np.square(rows).sum(axis=2)
    df, squares = _prior(lengths, depths.shape[2])
    t = _observed(depths, lengths, df, squares)
    parts = []
    for n, start in enumerate(range(0, len(depths), group)):
        of = slice(start, start + group)
        best = _best(rows[of], lengths[of], df[of], squares[of], _directions(seed + n, depths.shape[2], draws // 2))
        floor = t[of] - TIE * np.maximum(1.0, abs(t[of]))
        reached = np.stack([(best >= floor[:, k, None]).sum(axis=1) for k in range(t.shape[1])], axis=1)
        parts.append((1 + reached) / (draws + 1))
    return np.concatenate(parts)


@lru_cache(maxsize=128)
def _directions(seed: int, blocks: int, pairs: int) -> Array:
    z = np.concatenate([slab for _, slab in directions(seed, blocks, pairs)]) / GRID
    found: Array = z / np.sqrt(np.square(z).sum(axis=0))
    return found


def _rows(depths: Array, ordered: bool, rho: float | None) -> Array:
    """The coordinates: blocks without order need none."""
    if not ordered:
        return depths
    blocks = depths.shape[2]
    rows = depths @ np.array(series.dct_rows(blocks)).T
    if rho is not None:
        sizes = np.array(series.row_sizes(blocks, rho))
    else:
        place = np.rint(_autocorrelation(depths) / series.LARGEST_RHO * (RHOS - 1)).astype(int)
        sizes = _sizes(blocks)[place][:, None, :]
    found: Array = rows / sizes
    return found


def _autocorrelation(depths: Array) -> Array:
    """As `series.autocorrelation` has it, of each depth."""
    off = depths - depths.mean(axis=2, keepdims=True)
    lag = ((off[:, :, 1:] * off[:, :, :-1]).sum(axis=2) / np.square(off).sum(axis=2)).mean(axis=1)
    blocks = depths.shape[2]
    rho = lag + (1 + 3 * lag) / (blocks - 1) + series.RHO_SAFETY / np.sqrt(blocks)
    found: Array = np.clip(rho, 0.0, series.LARGEST_RHO)
    return found


@lru_cache(maxsize=8)
def _sizes(blocks: int) -> Array:
    """Of each row, for each of RHOS."""
    rhos = np.linspace(0, series.LARGEST_RHO, RHOS)[:, None]
    weights = np.array(series.dct_rows(blocks))
    before, total = np.zeros((RHOS, blocks)), np.zeros((RHOS, blocks))
    for weight in weights.T:
        total += weight * (weight + 2 * before)
        before = rhos * (before + weight)
    found: Array = np.sqrt(total / total[:, :1])
    return found


def _prior(lengths: Array, blocks: int) -> tuple[Array, Array]:
    """Of each depth, how many blocks the common noise counts for; and what it adds to the squares of each idea."""
    depths, ideas = lengths.shape
    if ideas < FEWEST_IDEAS:
        return np.zeros(depths), np.zeros_like(lengths)
    spread = np.log(lengths).var(axis=1, ddof=1) - trigamma(blocks / 2)
    dfs = np.geomspace(1.0, max(1.0, 2.0 * (blocks - 1)), 400)
    told = np.array([trigamma(df / 2) for df in dfs])
    df, common = np.interp(-spread, -told, dfs), np.median(lengths, axis=1, keepdims=True)
    return df, df[:, None] * np.minimum(common, MOST_COMMON * lengths) / blocks


def _observed(depths: Array, lengths: Array, prior_df: Array, squares: Array) -> Array:
    blocks = depths.shape[2]
    means = depths.mean(axis=2)
    rest = np.maximum(lengths - blocks * means**2, 0.0) + squares
    t = means / np.sqrt(rest / (blocks - 1 + prior_df)[:, None] / blocks)
    return _guarded(t, _leanings(depths), blocks)


def _leanings(depths: Array) -> Array:
    """Of each depth, for all of its ideas."""
    blocks = depths.shape[2]
    off = depths - depths.mean(axis=2, keepdims=True)
    second, third = np.square(off).mean(axis=2), (off * off * off).mean(axis=2)
    own = third / second**1.5 * np.sqrt(blocks * (blocks - 1)) / max(blocks - 2, 1)
    found: Array = np.minimum(0.0, own.mean(axis=1, keepdims=True))
    return found


def _guarded(t: Array, lean: Array, blocks: int) -> Array:
    """As `skewness.guarded`."""
    heeded = (t > 0) & (lean < 0)
    a = np.where(heeded, lean, -1.0) / (3 * np.sqrt(blocks))
    found: Array = np.where(heeded, np.minimum(t, t + a * (t * t + 0.5) + a * a * t * t * t / 3), t)
    return found


def _best(rows: Array, lengths: Array, prior_df: Array, squares: Array, directions: Array) -> Array:
    """[depth, draw]: the largest t of any idea in each direction, and in its opposite."""
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
