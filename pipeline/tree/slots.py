"""Positions in the search: d1.n0 is the best node of depth 1, d1.n0.i2 the third idea tried on it."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_PLACE = re.compile(rf"d{_NUMBER}\.n{_NUMBER}")
_SLOT = re.compile(rf"d{_NUMBER}\.n{_NUMBER}\.i{_NUMBER}")


class Place(NamedTuple):
    """A position of the beam: which depth, which rank in it.  It holds a node or is empty."""

    depth: int
    node: int

    def __str__(self) -> str:
        return f"d{self.depth}.n{self.node}"


class Slot(NamedTuple):
    """A position for one evaluation: they are compared in the order in which they are assigned."""

    depth: int
    node: int
    idea: int

    def __str__(self) -> str:
        return f"d{self.depth}.n{self.node}.i{self.idea}"

    @property
    def place(self) -> Place:
        return Place(self.depth, self.node)


ROOT = Place(0, 0)
NO_SLOT = Slot(*ROOT, 0)  # of a summary, which has no position


def parse_place(text: str) -> Place:
    if match := _PLACE.fullmatch(text):
        return Place(*map(int, match.groups()))
    raise ValueError(f"'{text}' is no place of the beam; it would be like d1.n0")


def parse_slot(text: str) -> Slot:
    if match := _SLOT.fullmatch(text):
        return Slot(*map(int, match.groups()))
    raise ValueError(f"'{text}' is no slot; it would be like d1.n0.i2")


def places_of(depth: int, beam_width: int) -> tuple[Place, ...]:
    """Depth 0 has the root alone."""
    return tuple(Place(depth, node) for node in range(beam_width if depth else 1))


def slots_of(depth: int, beam_width: int, ideas_per_node: int) -> tuple[Slot, ...]:
    """All evaluations that a depth can have, in order."""
    return tuple(Slot(*place, idea) for place in places_of(depth, beam_width) for idea in range(ideas_per_node))
