"""What a simulation counted, with the uncertainty that comes of counting."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from math import sqrt
from typing import NamedTuple

import numpy as np

Z = 1.959964  # of a two-sided 95 % interval


class Share(NamedTuple):
    """So many of so many."""

    hits: int
    of: int

    @property
    def percent(self) -> float:
        return 100 * self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, in percent."""
        if not self.of:
            return 0.0, 100.0
        p, n = self.hits / self.of, self.of
        middle, wide = p + Z * Z / (2 * n), Z * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return tuple(100 * (middle + side * wide) / (1 + Z * Z / n) for side in (-1, 1))  # type: ignore[return-value]

    def within(self, most: float) -> bool:
        """Whether the interval includes `most` percent or is below it."""
        return self.interval[0] <= most

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.percent:.1f} ({low:.1f}-{high:.1f})"


def share(hits: Iterable[bool]) -> Share:
    found = [bool(hit) for hit in hits]
    return Share(sum(found), len(found))


def seeded(*parts: object) -> np.random.Generator:
    """A stream of its own for each cell of each study."""
    digest = sha256("\x1f".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
