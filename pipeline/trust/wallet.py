"""The alpha of a run: what a depth may spend on promoting by mistake.

Each of D depths gets alpha/D.  A depth that filled all its places, or had nothing to compare, hands all of its level on
to the next: it left no room for noise to be promoted.  One with a place left does not, even if it promoted something:
the ideas beside had their chance at that level, and would have it once more in every later depth."""

from __future__ import annotations

from collections.abc import Sequence


def level(alpha: float, depths: int, freed: Sequence[bool]) -> float:
    """Of the depth after those that `freed` tells of: whether each filled its places or had nothing to compare."""
    if not 0 <= len(freed) < depths:
        raise ValueError(f"there are {depths} depths, and {len(freed)} of them are over")
    share = carried = alpha / depths
    for free in freed:
        carried = share + (carried if free else 0.0)
    return carried
