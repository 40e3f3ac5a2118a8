"""What a gc found in a store and dropped, as records."""

from __future__ import annotations

from typing import NamedTuple


class Tally(NamedTuple):
    """How many files, and their bytes."""

    files: int = 0
    size: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(self.files + other.files, self.size + other.size)


class Root(NamedTuple):
    """What another checkout refers to: its place `host:/path`, the file that says so, how many stored results."""

    place: str
    file: str
    results: int


class Swept(NamedTuple):
    """What was dropped from a store and what is left in it."""

    folder: str
    results: Tally
    objects: Tally
    drafts: Tally
    damaged: Tally
    left: Tally
    others: tuple[Root, ...]
