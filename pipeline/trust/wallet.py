"""The alpha of a run: what a depth may spend on promoting by mistake.

Each of D depths gets alpha/D.  A depth that promoted an idea, or had nothing to compare, hands all of its level on to
the next: the error that it could have made was not made, or was a find.  So at most alpha of all runs ever promote
noise before they promote anything real, and a search that finds something goes on with more power."""

from __future__ import annotations

from collections.abc import Sequence


def level(alpha: float, depths: int, freed: Sequence[bool]) -> float:
    """Of the depth after those that `freed` tells of: whether each promoted something or had nothing to compare."""
    if not 0 <= len(freed) < depths:
        raise ValueError(f"there are {depths} depths, and {len(freed)} of them are over")
    share = carried = alpha / depths
    for free in freed:
        carried = share + (carried if free else 0.0)
    return carried
