"""Where float noise ends: numbers are rounded before anything is decided by them."""

from __future__ import annotations

from collections.abc import Sequence

DIGITS = 12
SAME = 1e-12  # of what was measured: differences up to it are none
STEADY = 1e-9  # of the largest difference: blocks that differ among each other by up to it have no noise


def significant(number: float) -> float:
    """12 digits; minus zero is zero."""
    return float(f"{number:.{DIGITS}g}") + 0.0


def steady(blocks: Sequence[float]) -> bool:
    """Whether they are all the same."""
    return max(blocks) - min(blocks) <= STEADY * max(map(abs, blocks))
