"""Depths of ideas without any effect, made up from the noise that was really seen.

`fit_noise` learns from differences that mean nothing: how large they are, how alike neighbouring blocks and other ideas
are, and whether blocks lean or have rare large values.  `Noise.depths` makes others like them.  Both the mean of a row
and its sign are drawn anew with everything else: to flip signs of what was seen would keep what it is about to test."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_128
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.trust.draws import GRID, normals

if TYPE_CHECKING:
    from pipeline.trust.draws import Array

FEWEST_NOISE_BLOCKS = 3  # for noise to be told from its mean
ALIKE_FROM = 1.645  # standard errors from which on neighbours count as alike
TOGETHER_FROM = 3.09  # and from which on all blocks of a row count as moving together: that weighs much more
SMOOTH_BLOCKS = 2  # blocks' worth of a shape is always normal: what was seen in few blocks is not all there is
MOST_RHO = 0.95


class Noise(NamedTuple):
    """What chance does to differences between equals.

    `shapes`: a row each that was seen, of mean 0 and variance 1, with nothing left of the likeness of neighbours;
    `sizes`: how large each is.  `level`: by how much all blocks of a row move together.  `states`: rows are
    measurements of the same code; an idea's difference is then one of them less another, the baseline's."""

    shapes: tuple[tuple[float, ...], ...]
    sizes: tuple[float, ...]
    rho: float  # of neighbours that is reckoned with: 0 where it may be none
    seen_rho: float
    rho_error: float
    alike: float  # correlation of rows
    skewness: float
    rough: float  # 0: normal; 1: as the blocks that were seen
    level: float
    states: bool

    @property
    def size(self) -> float:
        """Of the difference in one block."""
        square = sum(size * size for size in self.sizes) / len(self.sizes)
        return float((square * (2 if self.states else 1)) ** 0.5)

    def depths(self, seed: int, count: int, ideas: int, blocks: int) -> Array:
        """[depth, idea, block]: differences to the baseline."""
        rows = self._rows(seed, count, ideas + self.states, blocks)
        found: Array = rows[:, 1:] - rows[:, :1] if self.states else rows
        return found

    def _rows(self, seed: int, count: int, rows: int, blocks: int) -> Array:
        shape, shapes = (count, rows, blocks), np.array(self.shapes)
        smooth = (1 - self.rough**2) ** 0.5
        own = _normals(seed, "own", shape) * (smooth * (1 - self.alike) ** 0.5)
        found = own + _normals(seed, "shared", (count, 1, blocks)) * (smooth * self.alike**0.5)
        if self.rough:
            block = _numbers(seed, "block", (count, 1, blocks), shapes.shape[1])
            row = _numbers(seed, "row", shape, len(shapes))
            found += self.rough * shapes[row, block]
        _recolour(found, self.rho)
        size = np.array(self.sizes)[_numbers(seed, "size", (count, rows, 1), len(self.sizes))]
        level = _normals(seed, "level", (count, rows, 1)) * self.level
        return np.asarray(found * size + level)


def fit_noise(rows: Sequence[Sequence[float]], states: bool) -> Noise | None:
    """`rows`: blocks of each.  None: there is no noise in them.  The mean of a row is noise only where rows are
    `states`; else it may be an effect, and is left out."""
    seen = np.array(rows, dtype=float)
    count = len(seen)
    if states:
        seen = (seen - seen.mean(axis=0)) * (count / (count - 1)) ** 0.5
    off = seen - seen.mean(axis=1, keepdims=True)
    off = off[off.std(axis=1) > 1e-9 * max(1e-300, float(abs(off).max()))]
    if not len(off):
        return None
    alike = 0.0 if states else _alike(off)
    independent = len(off) / (1 + (len(off) - 1) * alike)
    seen_rho, error = _rho(off, independent)
    rho = min(MOST_RHO, seen_rho) if seen_rho > ALIKE_FROM * error else 0.0
    shapes = _whitened(off, rho)
    sizes = _sizes(off, rho, pooled=states)
    lean, rough = _roughness(shapes, independent)
    level = _level(seen, sizes, rho) if states else 0.0
    of = tuple(tuple(shape) for shape in shapes.tolist())
    return Noise(of, tuple(sizes.tolist()), rho, seen_rho, error, alike, lean, rough, level, states)


def _alike(off: Array) -> float:
    """The mean correlation of rows, by how little their mean varies less than each."""
    count = len(off)
    if count == 1:
        return 0.0
    rows = off / off.std(axis=1, keepdims=True)
    return float(np.clip((count * rows.mean(axis=0).var() - 1) / (count - 1), 0.0, 0.95))


def _rho(off: Array, independent: float) -> tuple[float, float]:
    """Of neighbours, over all rows and corrected for its bias; and its standard error."""
    blocks = off.shape[1]
    found = float(((off[:, 1:] * off[:, :-1]).sum(axis=1) / np.square(off).sum(axis=1)).mean())
    rho = float(np.clip(found + (1 + 3 * found) / (blocks - 1), -1.0, 1.0))
    return rho, float(((1 - min(found**2, 0.9)) / (blocks * independent)) ** 0.5)


def _whitened(off: Array, rho: float) -> Array:
    rows = off.copy()
    rows[:, 1:] = (off[:, 1:] - rho * off[:, :-1]) / (1 - rho**2) ** 0.5
    rows -= rows.mean(axis=1, keepdims=True)
    found: Array = rows / rows.std(axis=1, keepdims=True)
    return found


def _recolour(rows: Array, rho: float) -> None:
    """Likeness of neighbours, put in place."""
    if rho:
        for block in range(1, rows.shape[2]):
            rows[:, :, block] = rho * rows[:, :, block - 1] + (1 - rho**2) ** 0.5 * rows[:, :, block]


def inflation(blocks: int, rho: float) -> float:
    """By how much the variance of a mean is larger for neighbours that are alike."""
    lags = np.arange(1, blocks)
    return float(1 + 2 * ((1 - lags / blocks) * rho**lags).sum())


def _sizes(off: Array, rho: float, pooled: bool) -> Array:
    """Of each row.  Few blocks make sizes look more different than they are: that part is taken out."""
    blocks = off.shape[1]
    squares = np.square(off).sum(axis=1) / (blocks - min(inflation(blocks, rho), blocks - 1))
    if pooled or len(off) == 1:
        return np.array([squares.mean() ** 0.5])
    logs = 0.5 * np.log(squares)
    spread = float(logs.var(ddof=1))
    kept = max(0.0, 1 - 0.5 / (blocks - 1) / spread) ** 0.5 if spread else 0.0
    sizes = np.exp(logs.mean() + kept * (logs - logs.mean()))
    found: Array = sizes * (squares.mean() / np.square(sizes).mean()) ** 0.5
    return found


def _roughness(shapes: Array, independent: float) -> tuple[float, float]:
    """The skewness; and how much of the shape is real, as far as it is more than what normal noise would show."""
    blocks = shapes.shape[1]
    g1 = float((shapes**3).mean(axis=1).mean()) * (blocks * (blocks - 1)) ** 0.5 / (blocks - 2)
    g2 = float((shapes**4).mean(axis=1).mean()) - 3
    chi = blocks * independent * (g1**2 / 6 + g2**2 / 24)
    return g1, min(1 - SMOOTH_BLOCKS / blocks, max(0.0, 1 - 2 / chi)) ** 0.5 if chi else 0.0


def _level(seen: Array, sizes: Array, rho: float) -> float:
    """What moves all blocks of a row together, if that is more than blocks alone would do."""
    count, blocks = seen.shape
    found = float(seen.mean(axis=1).var(ddof=1))
    by_blocks = float(np.square(sizes).mean()) * inflation(blocks, rho) / blocks
    narrow = 2 / (9 * (count - 1))
    most = (1 - narrow + TOGETHER_FROM * narrow**0.5) ** 3  # Wilson and Hilferty's quantile of chi2 over its df
    return (found - by_blocks) ** 0.5 if found > by_blocks * most else 0.0


def _normals(seed: int, stream: str, shape: tuple[int, ...]) -> Array:
    found: Array = normals(seed, stream, int(np.prod(shape))).reshape(shape) / GRID
    return found


def _numbers(seed: int, stream: str, shape: tuple[int, ...], below: int) -> Array:
    """Whole numbers from 0 on."""
    raw = shake_128(f"{seed}/{stream}".encode()).digest(4 * int(np.prod(shape)))
    return (np.frombuffer(raw, dtype="<u4") % below).astype(int).reshape(shape)
