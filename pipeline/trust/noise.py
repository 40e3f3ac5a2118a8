"""Simulated depths whose ideas have no effect, from measured noise.

`fit_noise` learns from differences that mean nothing: their size, the likeness of neighbouring blocks and of other
ideas, and whether blocks lean or have rare large values.  `Noise.depths` draws others like them.  The mean of a row and
its sign are drawn anew with everything else: flipping the signs of measured rows would keep what is to be tested."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.trust.distributions import GRID, portable_normals

if TYPE_CHECKING:
    from pipeline.trust.distributions import Array


FEWEST_NOISE_BLOCKS = 3  # with fewer, noise cannot be told from its mean
ALIKE_FROM = 1.645  # standard errors from which on neighbours count as alike
TOGETHER_FROM = 3.09  # and from which on all blocks of a row count as moving together: that weighs much more
SMOOTH_BLOCKS = 2  # so many blocks' worth of a shape is always normal: a few blocks do not show everything
MOST_RHO = 0.95


class Noise(NamedTuple):
    """The noise of differences between equals.

    `shapes`: measured rows, of mean 0 and variance 1, without the likeness of neighbours; `sizes`: the size of each.
    `level`: the common move of all blocks of a row.  `states`: rows are measurements of the same code; an idea's
    difference is then one of them less another, the baseline's.  `repeats`: of the split whose folds the blocks are."""

    shapes: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...]
    rho: float  # the correlation of neighbours that is used: 0 where it may be none
    seen_rho: float
    rho_error: float
    alike: float  # correlation of rows
    skewness: float
    rough: float  # 0: normal; 1: as the blocks that were seen
    level: float
    states: bool
    repeats: int = 1

    @property
    def size(self) -> float:
        """The size of the difference in one block."""
        square = sum(size * size for size in self.sizes) / len(self.sizes)
        return float((square * (2 if self.states else 1)) ** 0.5)

    def depths(self, seed: int, count: int, ideas: int, blocks: int) -> Array:
        """Draw differences to the baseline: [depth, idea, block]."""
        rows = self._rows(seed, count, ideas + self.states, blocks)
        if self.repeats > 1:
            rows = _repeated(rows, blocks * self.repeats // len(self.shapes[0]))
        rows = rows + _normals(seed, "level", (*rows.shape[:2], 1)) * self.level  # of all repeats alike
        return np.asarray(rows[:, 1:] - rows[:, :1]) if self.states else rows

    def _rows(self, seed: int, count: int, rows: int, blocks: int) -> Array:
        shape, shapes = (count, rows, blocks), np.array(self.shapes)
        smooth = (1 - self.rough**2) ** 0.5
        own = _normals(seed, "own", shape) * (smooth * (1 - self.alike) ** 0.5)
        found = own + _normals(seed, "shared", (count, 1, blocks)) * (smooth * self.alike**0.5)
        if self.rough:
            block = _integers(seed, "block", (count, 1, blocks), shapes.shape[1])
            row = _integers(seed, "row", shape, len(shapes))
            found += self.rough * shapes[row, block]
        for at in range(1, blocks) if self.rho else ():  # the likeness of neighbours
            found[:, :, at] = self.rho * found[:, :, at - 1] + (1 - self.rho**2) ** 0.5 * found[:, :, at]
        size = np.array(self.sizes)[_integers(seed, "size", (count, rows, 1), len(self.sizes))]
        return np.asarray(found * size)


def _repeated(rows: Array, repeats: int) -> Array:
    """Rows of independent blocks made folds of repeats, one after the other: all repeats have the same mean, and it
    varies as that of the folds of one."""
    folds = rows.reshape(*rows.shape[:2], repeats, -1)
    mean = rows.mean(axis=2)[:, :, None, None] * repeats**0.5
    return np.asarray((folds - folds.mean(axis=3, keepdims=True) + mean).reshape(rows.shape))


def fit_noise(rows: Sequence[Sequence[float]], states: bool, repeats: Sequence[int] | None = None) -> Noise | None:
    """Fit the noise of rows of blocks; None when there is none.  The mean of a row is noise only where rows are
    `states`; else it may be an effect, and is left out.  `repeats`: as `weigh` has them."""
    seen = np.array(rows, dtype=float)
    count = len(seen)
    if states:
        seen = (seen - seen.mean(axis=0)) * (count / (count - 1)) ** 0.5
    off, many = seen - seen.mean(axis=1, keepdims=True), len({*repeats}) if repeats else 1
    if repeats:
        off = _off_their_repeat(seen, repeats)
    off = off[off.std(axis=1) > 1e-9 * max(1e-300, float(abs(off).max()))]
    if not len(off):
        return None
    alike = 0.0 if states else _likeness(off)
    independent = len(off) / (1 + (len(off) - 1) * alike)
    seen_rho, error = _rho(off, independent) if not repeats else (0.0, 0.0)
    rho = min(MOST_RHO, seen_rho) if seen_rho > ALIKE_FROM * error else 0.0
    shapes = _decorrelate_neighbours(off, rho)
    sizes = _sizes(off, rho, seen.shape[1] - many, pooled=states)
    lean, rough = _roughness(shapes, independent)
    level = _level(seen, sizes, rho, seen.shape[1] // many) if states else 0.0
    fixed = tuple(tuple(shape) for shape in shapes.tolist())
    return Noise(fixed, tuple(sizes.tolist()), rho, seen_rho, error, alike, lean, rough, level, states, many)


def _off_their_repeat(seen: Array, repeats: Sequence[int]) -> Array:
    """How folds differ from the mean of their repeat, repeat by repeat."""
    groups = np.argsort(repeats, kind="stable").reshape(len({*repeats}), -1)
    folds = seen[:, groups]
    return np.asarray((folds - folds.mean(axis=2, keepdims=True)).reshape(seen.shape))


def _likeness(off: Array) -> float:
    """The mean correlation of rows, by how much less their mean varies than each."""
    count = len(off)
    if count == 1:
        return 0.0
    rows = off / off.std(axis=1, keepdims=True)
    return float(np.clip((count * rows.mean(axis=0).var() - 1) / (count - 1), 0.0, 0.95))


def _rho(off: Array, independent: float) -> tuple[float, float]:
    """The correlation of neighbours over all rows, corrected for its bias; and its standard error."""
    blocks = off.shape[1]
    found = float(((off[:, 1:] * off[:, :-1]).sum(axis=1) / np.square(off).sum(axis=1)).mean())
    rho = float(np.clip(found + (1 + 3 * found) / (blocks - 1), -1.0, 1.0))
    return rho, float(((1 - min(found**2, 0.9)) / (blocks * independent)) ** 0.5)


def _decorrelate_neighbours(off: Array, rho: float) -> Array:
    rows = off.copy()
    rows[:, 1:] = (off[:, 1:] - rho * off[:, :-1]) / (1 - rho**2) ** 0.5
    rows -= rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / rows.std(axis=1, keepdims=True))


def inflation(blocks: int, rho: float) -> float:
    """The factor of the variance of a mean by the likeness of neighbours."""
    lags = np.arange(1, blocks)
    return float(1 + 2 * ((1 - lags / blocks) * rho**lags).sum())


def _sizes(off: Array, rho: float, df: int, pooled: bool) -> Array:
    """The size of each row.  Few blocks make sizes look more different than they are: that part is taken out.

    `df`: the degrees of freedom of a row, if its blocks were independent."""
    blocks = off.shape[1]
    squares = np.square(off).sum(axis=1) / (df + 1 - min(inflation(blocks, rho), blocks - 1))
    if pooled or len(off) == 1:
        return np.array([squares.mean() ** 0.5])
    logs = 0.5 * np.log(squares)
    spread = float(logs.var(ddof=1))
    kept = max(0.0, 1 - 0.5 / df / spread) ** 0.5 if spread else 0.0
    sizes = np.exp(logs.mean() + kept * (logs - logs.mean()))
    return np.asarray(sizes * (squares.mean() / np.square(sizes).mean()) ** 0.5)


def _roughness(shapes: Array, independent: float) -> tuple[float, float]:
    """The skewness; and the real part of the shape, beyond that of normal noise."""
    blocks = shapes.shape[1]
    g1 = float((shapes**3).mean(axis=1).mean()) * (blocks * (blocks - 1)) ** 0.5 / (blocks - 2)
    g2 = float((shapes**4).mean(axis=1).mean()) - 3
    chi = blocks * independent * (g1**2 / 6 + g2**2 / 24)
    return g1, min(1 - SMOOTH_BLOCKS / blocks, max(0.0, 1 - 2 / chi)) ** 0.5 if chi else 0.0


def _level(seen: Array, sizes: Array, rho: float, worth: int) -> float:
    """The common move of all blocks of a row, if it is more than blocks alone would give."""
    count = len(seen)
    found = float(seen.mean(axis=1).var(ddof=1))
    by_blocks = float(np.square(sizes).mean()) * inflation(worth, rho) / worth
    narrow = 2 / (9 * (count - 1))
    most = (1 - narrow + TOGETHER_FROM * narrow**0.5) ** 3  # Wilson and Hilferty's quantile of chi2 over its df
    return (found - by_blocks) ** 0.5 if found > by_blocks * most else 0.0


ORDERS = 5_000  # in which blocks are laid, to see how alike the means of repeats would be by chance


def likeness_of_repeats(rows: Sequence[Sequence[float]], repeats: Sequence[int]) -> float:
    """How often blocks in any other order would have repeats whose means are as alike, over all rows: small where
    blocks repeat a split of the same data.  Exact for blocks without order, whatever their noise."""
    seen = np.array([row for row in rows if max(row) > min(row)], dtype=float)
    if not len(seen):
        return 1.0
    seen = (seen - seen.mean(axis=1, keepdims=True)) / seen.std(axis=1, keepdims=True)
    groups = np.argsort(repeats, kind="stable").reshape(len({*repeats}), -1)
    orders = np.argsort(_normals(1, "orders", (ORDERS, seen.shape[1])), axis=1, kind="stable")

    def spread(order: Any) -> Array:
        return np.asarray(np.square(seen[:, order[..., groups]].sum(axis=-1)).sum(axis=(0, -1)))

    own = float(spread(np.arange(seen.shape[1])))
    return float((1 + (spread(orders) <= own * (1 + 1e-9) + 1e-9).sum()) / (ORDERS + 1))


def _normals(seed: int, stream: str, shape: tuple[int, ...]) -> Array:
    return np.asarray(portable_normals(seed, stream, int(np.prod(shape))).reshape(shape) / GRID)


def _integers(seed: int, stream: str, shape: tuple[int, ...], below: int) -> Array:
    """Whole numbers from 0 on, below `below`."""
    raw = shake_128(f"{seed}/{stream}".encode()).digest(4 * int(np.prod(shape)))
    return (np.frombuffer(raw, dtype="<u4") % below).astype(int).reshape(shape)
