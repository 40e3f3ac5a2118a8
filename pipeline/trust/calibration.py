"""A rule held against noise: how often it promotes ideas that have no effect, and how often it finds one that has."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.trust.many import p_values
from pipeline.trust.surrogates import Noise
from pipeline.trust.verdicts import FEWEST_BLOCKS

if TYPE_CHECKING:
    from pipeline.trust.draws import Array

Z = 1.959964  # of a two-sided 95 % interval
POWER = 0.8
DRAWS = 2_000
TAIL = 20  # random directions that should lie beyond the critical one, at least
STEPS, MOST_ERRORS = 8, 64.0  # of the search for the effect that is found with POWER
FEWER = 4  # of the depths one in so many is enough for each step of it


class Share(NamedTuple):
    """So many of so many."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, 95 %."""
        p, n = self.rate, self.of
        middle, wide = p + Z * Z / (2 * n), Z * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        low, high = ((middle + side * wide) / (1 + Z * Z / n) for side in (-1, 1))
        return max(0.0, low), min(1.0, high)


class Rule(NamedTuple):
    """What promotes.  `level`: alpha of one depth.  `tested` False: whatever is better on average, by however little."""

    level: float
    smallest_effect: float = 0.0
    ordered: bool = False
    rho: float | None = None
    tested: bool = True

    def promotes(self, depths: Array, seed: int) -> Array:
        """[depth, idea]."""
        means = depths.mean(axis=2)
        if not self.tested:
            return means >= 0
        return self.by_chance(depths, seed) & (means > 0) & (means >= self.smallest_effect)

    def by_chance(self, depths: Array, seed: int) -> Array:
        """Where the test says that it is more than chance, be it worth having or not."""
        if depths.shape[2] < FEWEST_BLOCKS:
            return np.zeros(depths.shape[:2], bool)
        draws = max(DRAWS, 2 * round(TAIL / self.level / 2))
        found: Array = p_values(depths, seed=seed, ordered=self.ordered, rho=self.rho, draws=draws) <= self.level
        return found


class Found(NamedTuple):
    """Of one idea with an effect among others without."""

    effect: float
    share: Share


class Cell(NamedTuple):
    """Of depths with so many ideas and blocks.  `chance`: in which the test let any pass, `promoted`: in which any was
    promoted; `error`: the standard error of a mean; `detectable`: the effect that is found with POWER, if there is one."""

    ideas: int
    blocks: int
    chance: Share
    promoted: Share
    error: float
    power: tuple[Found, ...] = ()
    detectable: float | None = None


def measured(noise: Noise, rule: Rule, ideas: int, blocks: int, depths: int, seed: int) -> Cell:
    """How often noise is promoted."""
    made = noise.depths(seed, depths, ideas, blocks)
    chance = rule.by_chance(made, seed) if rule.tested else rule.promotes(made, seed)
    means = made.mean(axis=2)
    promoted = chance & (means >= rule.smallest_effect) if rule.tested else chance
    return Cell(ideas, blocks, _any(chance), _any(promoted), float(means.std()))


def powered(cell: Cell, noise: Noise, rule: Rule, effects: Sequence[float], depths: int, seed: int) -> Cell:
    """The same with how often an effect is found."""
    made = noise.depths(seed, depths, cell.ideas, cell.blocks)
    power = tuple(Found(effect, _found(rule, made, effect, seed)) for effect in effects)
    some = made[: max(1, depths // FEWER)]
    return cell._replace(power=power, detectable=_detectable(rule, some, cell.error, seed))


def _any(wins: Array) -> Share:
    return Share(int(wins.any(axis=1).sum()), len(wins))


def _found(rule: Rule, depths: Array, effect: float, seed: int) -> Share:
    """The first idea has the effect."""
    planted = depths.copy()
    planted[:, 0] += effect
    wins = rule.promotes(planted, seed)[:, 0]
    return Share(int(wins.sum()), len(wins))


def _detectable(rule: Rule, depths: Array, error: float, seed: int) -> float | None:
    """By halving what is between an effect that is not found often enough and one that is."""
    high = 2 * error
    while _found(rule, depths, high, seed).rate < POWER:
        high *= 2
        if high > MOST_ERRORS * error + 2 * rule.smallest_effect:
            return None
    low = high / 2 if high > 2 * error else 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _found(rule, depths, middle, seed).rate < POWER else (low, middle)
    return high
