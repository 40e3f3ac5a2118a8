"""Ideas that were stopped after the first blocks still count: a place among the ideas is what a chance to win costs.

To test the survivors alone would forget that they were picked for having done well.  The missing blocks of the others
are filled with noise of their own size; it is drawn anew for each, so that nothing is gained by stopping an idea."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt

from pipeline.trust.draws import GRID, normals


def filled(ideas: Sequence[Sequence[float]], count: int, seed: int) -> list[Sequence[float]]:
    """Each idea with `count` blocks.  The noise of an idea depends on its own blocks' number and place alone."""
    return [blocks if len(blocks) == count else _filled(blocks, count, seed, k) for k, blocks in enumerate(ideas)]


def _filled(blocks: Sequence[float], count: int, seed: int, place: int) -> list[float]:
    mean = fsum(blocks) / len(blocks)
    size = sqrt(fsum((block - mean) ** 2 for block in blocks) / (len(blocks) - 1))
    return [*blocks, *(float(z) / GRID * size for z in normals(seed, f"filled/{place}", count - len(blocks)))]
