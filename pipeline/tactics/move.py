"""One tactic that may be tried, with what it costs."""

from __future__ import annotations

from typing import NamedTuple

# Seconds that a tactic may take.
QUICK, SHORT, MIDDLE, LONG = 0.5, 1.0, 2.5, 6.0


class Move(NamedTuple):
    """`cost`: how far from the way it leads, 0 for what cannot be wrong; `family`: the module that proposed it.

    `closing`: it proves the goal or is of no use; what it leaves open is not looked at."""

    cost: float
    family: str
    tactic: str
    budget: float = SHORT
    closing: bool = False
