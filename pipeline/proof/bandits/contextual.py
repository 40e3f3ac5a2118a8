"""Successes per second, told from the shape of the goal: a logistic model of each arm, and hope where it knows little.

The weights have a Gaussian each, independent, which every attempt moves and narrows (Chapelle and Li 2011; the update
is that of a Kalman filter, so that forty traits that say the same are not believed forty times).  Arms share a part,
which learns how hard a goal with these traits is at all; so that an arm is not blamed for the goals it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log, sqrt
from typing import Any, NamedTuple

from pipeline.proof.bandits.model import FAILED, Shape, best

# Variances of weights that nothing is known of; their means are then 0.
ANY, KIND, BEFORE, TRAIT = 1.0, 0.3, 0.3, 0.05
OPTIMISM = 0.7  # in standard deviations, times the root of the logarithm of all attempts
FIRST_SECONDS = 1.0  # before any attempt; then, an arm that is not known is taken to cost what attempts usually do
LEAST_SECONDS = 0.01
SHARED = ""  # stands for all arms

Weight = tuple[float, float]  # mean and variance
Place = tuple[str, str]  # arm and trait


class Spent(NamedTuple):
    """Seconds and attempts, successful ones and others apart: the latter often take all that they may."""

    won: float = 0.0
    wins: int = 0
    lost: float = 0.0
    losses: int = 0

    def counted(self, success: bool, seconds: float) -> Spent:
        if success:
            return self._replace(won=self.won + seconds, wins=self.wins + 1)
        return self._replace(lost=self.lost + seconds, losses=self.losses + 1)

    def expected(self, chance: float, usual: float) -> float:
        """`usual` counts as one attempt of each kind."""
        won, lost = (self.won + usual) / (self.wins + 1), (self.lost + usual) / (self.losses + 1)
        return max(LEAST_SECONDS, chance * won + (1 - chance) * lost)

    @property
    def usual(self) -> float:
        trials = self.wins + self.losses
        return (self.won + self.lost) / trials if trials else FIRST_SECONDS


def chance(logit: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, logit))))


class Contextual:
    def __init__(self) -> None:
        self.weights: dict[Place, Weight] = {}
        self.spent: dict[str, Spent] = {}

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        shared, every = self._sum(SHARED, shape), self.spent.get(SHARED, Spent())
        hope = OPTIMISM * sqrt(log(1 + every.wins + every.losses))
        return best(arms, lambda arm: self._score(arm, shape, shared, hope, every.usual), n)

    def _score(self, arm: str, shape: Shape, shared: Weight, hope: float, usual: float) -> float:
        mean, variance = self._sum(arm, shape)
        plausible = chance(shared[0] + mean + hope * sqrt(shared[1] + variance))
        return plausible / self.spent.get(arm, Spent()).expected(plausible, usual)

    def _sum(self, arm: str, shape: Shape) -> Weight:
        mean = variance = 0.0
        for place, prior in _places(arm, shape):
            known = self.weights.get(place)
            mean += known[0] if known else 0.0
            variance += known[1] if known else prior
        return mean, variance

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        for of in (SHARED, arm):
            self.spent[of] = self.spent.get(of, Spent()).counted(success, seconds)
        places = (*_places(SHARED, shape), *_places(arm, shape))
        known = {place: self.weights.get(place, (0.0, prior)) for place, prior in places}
        expected = chance(sum(mean for mean, _ in known.values()))
        slope = expected * (1 - expected)
        gain = 1 / (1 + slope * sum(variance for _, variance in known.values()))
        for place, (mean, variance) in known.items():
            moved = mean + gain * variance * (success - expected)
            self.weights[place] = (moved, variance * (1 - gain * slope * variance))

    def learned(self) -> Mapping[str, Any]:
        weights = [[*place, *weight] for place, weight in self.weights.items()]
        spent = [[arm, *spent] for arm, spent in self.spent.items()]
        return {"weights": weights, "spent": spent}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.weights = {(arm, trait): (mean, variance) for arm, trait, mean, variance in learned["weights"]}
        self.spent = {arm: Spent(*spent) for arm, *spent in learned["spent"]}


def _places(arm: str, shape: Shape) -> Iterator[tuple[Place, float]]:
    """Where the weights are that bear on the arm, each with its variance at first.

    How often goals are proved at all, each arm learns by itself: what one proves is not to the others' credit."""
    if arm != SHARED:
        yield (arm, ""), ANY
    yield (arm, shape.kind), KIND
    for trait in shape.traits:
        yield (arm, trait), BEFORE if trait.startswith(FAILED) else TRAIT
