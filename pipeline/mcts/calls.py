"""How often a Lean was asked for something, by what for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass
class Calls:
    """What Lean was asked.  Only `tactics` count for a budget: the rest is the same whatever the search decides."""

    tactics: int = 0
    keys: int = 0
    prepared: int = 0  # goals brought to the front, and given names
    again: int = 0  # tactics run once more, since the session is another one


def total(each: Iterable[Calls]) -> Calls:
    return Calls(*map(sum, zip(*map(astuple, each), strict=True)))
