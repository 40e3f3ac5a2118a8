"""Calibration of a rule: how often it promotes ideas without effect, and how often it finds an effect."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.trust.batch import p_values
from pipeline.trust.evidence import FEWEST_BLOCKS, POWER
from pipeline.trust.noise import Noise

if TYPE_CHECKING:
    from pipeline.trust.distributions import Array

    Flags = np.ndarray[Any, np.dtype[np.bool_]]  # [depth, idea]


Z_95 = 1.959964  # of a two-sided 95 % interval
LEAST_DRAWS = 2_000
TAIL_DRAWS = 20  # random directions that should lie beyond the critical one, at least
# Of the search for the effect that is found with POWER, in standard errors.
FIRST_EFFECT, LARGEST_EFFECT, HALVINGS = 4.0, 64.0, 5


class Proportion(NamedTuple):
    """A number of hits among a number of tries."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval, 95 %."""
        p, n = self.rate, self.of
        middle, wide = p + Z_95 * Z_95 / (2 * n), Z_95 * sqrt(p * (1 - p) / n + Z_95 * Z_95 / (4 * n * n))
        low, high = ((middle + side * wide) / (1 + Z_95 * Z_95 / n) for side in (-1, 1))
        return max(0.0, low), min(1.0, high)


class Rule(NamedTuple):
    """A rule of promotion.  `level`: alpha of one depth.  `tested` False: a mean that is not worse is enough.
    `repeats`: of the split whose folds the blocks are."""

    level: float
    smallest_effect: float = 0.0
    ordered: bool = False
    rho: float | None = None
    tested: bool = True
    repeats: int = 1

    def passes(self, depths: Array, seed: int) -> Flags:
        """Ideas that the test tells from chance, whether worth having or not."""
        if not self.tested:
            return self.worth_having(depths)
        if depths.shape[2] < FEWEST_BLOCKS:
            return np.zeros(depths.shape[:2], bool)
        draws = max(LEAST_DRAWS, 2 * round(TAIL_DRAWS / self.level / 2))
        how: dict[str, Any] = {"ordered": self.ordered, "rho": self.rho, "repeats": self.repeats}
        found: Flags = p_values(depths, seed=seed, draws=draws, **how) <= self.level
        return found

    def worth_having(self, depths: Array) -> Flags:
        """Ideas with a mean of at least the smallest effect."""
        return np.asarray(depths.mean(axis=2) >= self.smallest_effect)

    def shares(self, depths: Array, seed: int, first: int | None = None) -> tuple[Proportion, Proportion]:
        """The shares of depths in which an idea, or one of the `first`, passes the test; and is promoted."""
        passed = self.passes(depths, seed)[:, :first]
        wins = passed & self.worth_having(depths)[:, :first]
        either, each = (Proportion(int(flags.any(axis=1).sum()), len(depths)) for flags in (passed, wins))
        return either, each


class Detection(NamedTuple):
    """One idea with an effect among others without: the shares of depths that pass the test, and promote it."""

    effect: float
    passed: Proportion
    promoted: Proportion


class SimulatedSetting(NamedTuple):
    """Depths with so many ideas and blocks.  `passed`: those where the test lets an idea pass though none has an
    effect, `promoted`: those where one is promoted.  `error`: the standard error of a mean; `detectable`: the effect
    that passes the test with POWER, if there is one."""

    ideas: int
    blocks: int
    passed: Proportion
    promoted: Proportion
    error: float
    power: tuple[Detection, ...] = ()
    detectable: float | None = None


def measure_promotions(noise: Noise, rule: Rule, ideas: int, blocks: int, depths: int, seed: int) -> SimulatedSetting:
    """Measure how often noise is promoted."""
    drawn = noise.depths(seed, depths, ideas, blocks)
    return SimulatedSetting(ideas, blocks, *rule.shares(drawn, seed), float(drawn.mean(axis=2).std()))


def with_power(
    cell: SimulatedSetting, noise: Noise, rule: Rule, effects: Sequence[float], depths: int, seed: int
) -> SimulatedSetting:
    """The cell with the power to find each effect, and the effect found with POWER, by bisection, if one is."""
    drawn = noise.depths(seed, depths, cell.ideas, cell.blocks)

    def detection(effect: float) -> Detection:
        """The detection of an effect of the first idea."""
        planted = drawn.copy()
        planted[:, 0] += effect
        return Detection(effect, *rule.shares(planted, seed, first=1))

    def is_found(errors: float) -> bool:
        return detection(errors * cell.error).passed.rate >= POWER

    cell = cell._replace(power=tuple(map(detection, effects)))
    low, high = FIRST_EFFECT / 2, FIRST_EFFECT
    while not is_found(high):
        low, high = high, 2 * high
        if high > LARGEST_EFFECT:
            return cell
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return cell._replace(detectable=high * cell.error)
