"""First the arm whose failures cost least where another one succeeds, told from the shape of the goal.

Whoever tries arm after arm on a goal loses time by those that fail although another one proves the goal.  So of two
arms that one goes first whose failures are cheaper where only the other proves it.  Where no arm does, all are tried
anyhow; and where both do, they mostly do it by the same moves.  (To divide chances by all seconds, as `discounted`
does, would be right if each attempt were at a goal of its own.)

The model of each arm is logistic.  Its weights have a Gaussian each, independent, which every attempt moves and narrows
(Chapelle and Li 2011; the update is that of a Kalman filter, so that forty traits that say the same are not believed
forty times).  Arms share a part, which learns how hard a goal with these traits is at all; so that an arm is not blamed
for the goals it was given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log, sqrt
from typing import Any

from pipeline.proof.bandits.model import FAILED, Shape, best

# Variances of weights that nothing is known of; their means are then 0.
ANY, KIND, BEFORE, TRAIT = 1.0, 0.3, 0.3, 0.05
OPTIMISM = 0.7  # in standard deviations, times the root of the logarithm of all attempts
FIRST_SECONDS = 1.0  # before any attempt; then, an arm that is not known is taken to cost what failures usually do
SHARED = ""  # stands for all arms

Weight = tuple[float, float]  # mean and variance
Place = tuple[str, str]  # arm and trait
Failures = tuple[float, int]  # seconds, and how many


def chance(logit: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, logit))))


class Contextual:
    def __init__(self) -> None:
        self.weights: dict[Place, Weight] = {}
        self.failures: dict[str, Failures] = {}
        self.attempts = 0

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        hoped, seconds = self._hoped(arms, shape), [self._seconds(arm) for arm in arms]
        alone = [self._others_alone(n, arms, hoped, shape) for n in range(len(arms))]
        regret = {}
        for one, arm in enumerate(arms):
            others = (other for other in range(len(arms)) if other != one)
            lost = (alone[one][other] * seconds[one] - alone[other][one] * seconds[other] for other in others)
            regret[arm] = max(lost, default=0.0)
        return best(arms, lambda arm: -regret[arm], n)

    def _hoped(self, arms: Sequence[str], shape: Shape) -> list[float]:
        """The largest logits that are plausible."""
        hope = OPTIMISM * sqrt(log(1 + self.attempts))
        mean, variance = self._sum(SHARED, shape)
        own = (self._sum(arm, shape) for arm in arms)
        return [mean + one + hope * sqrt(variance + uncertain) for one, uncertain in own]

    def _others_alone(self, fails: int, arms: Sequence[str], hoped: Sequence[float], shape: Shape) -> list[float]:
        """Of each arm, the chance that it proves the goal where that one fails."""
        likely, trait = 1 - chance(hoped[fails]), shape.failure(arms[fails])
        shared = self._mean(SHARED, trait)
        return [likely * chance(hoped[n] + shared + self._mean(arm, trait)) for n, arm in enumerate(arms)]

    def _mean(self, arm: str, trait: str) -> float:
        known = self.weights.get((arm, trait))
        return known[0] if known else 0.0

    def _sum(self, arm: str, shape: Shape) -> Weight:
        mean = variance = 0.0
        for place, prior in _places(arm, shape):
            known = self.weights.get(place)
            mean += known[0] if known else 0.0
            variance += known[1] if known else prior
        return mean, variance

    def _seconds(self, arm: str) -> float:
        """Of a failure; what all arms took counts as one of its own."""
        all_seconds, all_count = self.failures.get(SHARED, (FIRST_SECONDS, 1))
        seconds, count = self.failures.get(arm, (0.0, 0))
        return (seconds + all_seconds / all_count) / (count + 1)

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        self.attempts += 1
        if not success:
            for of in (SHARED, arm):
                spent, count = self.failures.get(of, (0.0, 0))
                self.failures[of] = (spent + seconds, count + 1)
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
        failures = [[arm, *spent] for arm, spent in self.failures.items()]
        return {"weights": weights, "failures": failures, "attempts": self.attempts}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.weights = {(arm, trait): (mean, variance) for arm, trait, mean, variance in learned["weights"]}
        self.failures = {arm: (seconds, count) for arm, seconds, count in learned["failures"]}
        self.attempts = learned["attempts"]


def _places(arm: str, shape: Shape) -> Iterator[tuple[Place, float]]:
    """Where the weights are that bear on the arm, each with its variance at first.

    How often goals are proved at all, each arm learns by itself: what one proves is not to the others' credit."""
    if arm != SHARED:
        yield (arm, ""), ANY
    yield (arm, shape.kind), KIND
    for trait in shape.traits:
        yield (arm, trait), BEFORE if trait.startswith(FAILED) else TRAIT
