"""From what was measured to one difference a block: configs are reduced first, only blocks tell what chance does."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from pipeline.trust.rounding import SAME, significant


def reduce(rows: Sequence[Sequence[float]]) -> list[float]:
    """A row a config, a column a block: the mean over the configs of each block."""
    return [significant(fsum(column) / len(rows)) for column in zip(*rows, strict=True)]


def differences(candidate: Sequence[float], baseline: Sequence[float], sign: float = 1.0) -> list[float]:
    """Block by block; more is better.  What differs by float noise only does not differ."""
    return [_difference(new, old, sign) for new, old in zip(candidate, baseline, strict=True)]


def _difference(new: float, old: float, sign: float) -> float:
    delta = new - old
    return significant(sign * delta) if abs(delta) > SAME * max(abs(new), abs(old)) else 0.0
