"""Random directions that are the same on every machine, and the largest of several t by chance.

numpy promises its raw streams but not its normal numbers, a sum of floats depends on the order that a processor takes,
and the C library's functions differ in their last bit.  Hence: bits come from SHAKE-128.  They look up a normal number
in a table of quantiles, on a grid so coarse that a last bit does not matter.  Numbers and coordinates are integers in
floats; their products stay below 2**53 in sum, so that every sum is exact in any order.  The rest are single IEEE
operations, which round alike everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import shake_128
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
