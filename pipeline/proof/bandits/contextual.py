"""Successes per second, told from the shape of the goal: a logistic model of each arm, and hope where it knows little.

The weights have a Gaussian each, independent, which every attempt narrows (Chapelle and Li 2011).  Arms share a part,
which learns how hard a goal with these traits is at all; so that an arm is not blamed for the goals it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, sqrt
from typing import Any

from pipeline.proof.bandits.model import Shape, best

PRECISION = 1.5  # of a weight that nothing is known of; its mean is then 0
OPTIMISM = 0.3  # in standard deviations
PRIOR_SECONDS, PRIOR_WEIGHT = 2.0, 1.0
LEAST_SECONDS = 0.01
SHARED = ""  # stands for all arms

Weight = tuple[float, float]  # mean and precision


def chance(logit: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, logit))))


class Contextual:
    def __init__(self) -> None:
        self.weights: dict[tuple[str, str], Weight] = {}
        self.cost: dict[str, tuple[float, float]] = {}  # seconds and trials

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        return best(arms, lambda arm: self.score(arm, shape), n)

    def score(self, arm: str, shape: Shape) -> float:
        mean, variance = self._logit(arm, shape)
        return chance(mean + OPTIMISM * sqrt(variance)) / self._seconds(arm)

    def _logit(self, arm: str, shape: Shape) -> tuple[float, float]:
        known = [self.weights.get(place, (0.0, PRECISION)) for place in _places(arm, shape)]
        return sum(mean for mean, _ in known), sum(1 / precision for _, precision in known)

    def _seconds(self, arm: str) -> float:
        seconds, trials = self.cost.get(arm, (0.0, 0.0))
        return max(LEAST_SECONDS, (seconds + PRIOR_SECONDS * PRIOR_WEIGHT) / (trials + PRIOR_WEIGHT))

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        expected = chance(self._logit(arm, shape)[0])
        for place in _places(arm, shape):
            mean, precision = self.weights.get(place, (0.0, PRECISION))
            precision += expected * (1 - expected)
            self.weights[place] = (mean + (success - expected) / precision, precision)
        spent, trials = self.cost.get(arm, (0.0, 0.0))
        self.cost[arm] = (spent + seconds, trials + 1)

    def learned(self) -> Mapping[str, Any]:
        weights = [[arm, trait, *weight] for (arm, trait), weight in self.weights.items()]
        return {"weights": weights, "cost": [[arm, *cost] for arm, cost in self.cost.items()]}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.weights = {(arm, trait): (mean, precision) for arm, trait, mean, precision in learned["weights"]}
        self.cost = {arm: (seconds, trials) for arm, seconds, trials in learned["cost"]}


def _places(arm: str, shape: Shape) -> Iterator[tuple[str, str]]:
    """Where the weights are that bear on the arm: of it and of all arms, for each trait and for none."""
    for trait in ("", shape.kind, *shape.traits):
        yield SHARED, trait
        yield arm, trait
