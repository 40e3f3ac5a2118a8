"""Bandits: which strategy to try next on which goal, by the name that a spec gives the rule.

None draws random numbers: the same attempts give the same choices, and ties go to the arm that is listed first.

`seed` is the documented rule, kept to the letter: a moving average of success, and a bonus for what was tried little.
Its bonus is larger than it should be. `bit_length` is the logarithm to base 2 rounded up, 1.4 times and more the
natural one, and the constant makes it 1.5 times larger again. With N = 100 trials in all, the bonus of an arm is more
than 1, the most that a rate can differ by, until it was tried 31 times. So in a run of a few hundred attempts, arms
that differ by a tenth are taken nearly by turns; the others learn sooner.

`ucb1` is UCB1 (Auer, Cesa-Bianchi, Fischer 2002): the mean of all trials, and the bonus that theory asks for.

`discounted` counts successes per second, by class of goal, old attempts counting less (Garivier and Moulines 2011).
If all arms may be tried on a goal until one succeeds, it is solved soonest in the order of chance divided
by cost. Old attempts fade, since a bank gets harder as it is worked through: the easy goals go first. What a class
has not shown itself is filled in from all classes.

`contextual` takes first the arm whose failures cost least where another one succeeds, judged by the features of the
goal. Trying arm after arm loses time by those that fail although another one proves the goal. So of two arms that one
goes first whose failures are cheaper where only the other proves it. Where no arm does, all are tried anyhow; and
where both do, they mostly do it by the same moves. (To divide chances by all seconds, as `discounted` does, would be
right if each attempt were at a goal of its own.) The model of each arm is logistic. Its weights have a Gaussian each,
independent, which every attempt moves and narrows (Chapelle and Li 2011; the update is that of a Kalman filter, so
that forty traits that say the same are not believed forty times). Arms share a part, which learns how hard a goal
with these traits is at all; so that an arm is not blamed for the goals it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, log, sqrt
from typing import NamedTuple, Protocol

FAILED_TRAIT = "failed "  # begins the trait of a goal that withstood an arm


class GoalShape(NamedTuple):
    """Shape of a goal before it is tried: its class, and traits, in an order that stays."""

    kind: str
    traits: tuple[str, ...] = ()

    def failure_trait(self, arm: str) -> str:
        """The trait that it gets if `arm` fails on it next: at each level an arm is tried once."""
        level = 0
        while (trait := f"{FAILED_TRAIT}{arm} {level}") in self.traits:
            level += 1
        return trait

    def after_failure(self, arm: str, level: int) -> GoalShape:
        """The shape of the goal once `arm` has failed on it."""
        return self._replace(traits=(*self.traits, f"{FAILED_TRAIT}{arm} {level}"))


class Bandit(Protocol):
    """Rule of choice.  It learns from attempts that ended by themselves: one that was cancelled says nothing."""

    def choose(self, arms: Sequence[str], shape: GoalShape) -> str:
        """Choose the arm to try next."""

    def learn(self, arm: str, shape: GoalShape, success: bool, seconds: float) -> None:
        """Learn how an attempt ended.  `shape` is what the goal was when the arm was chosen."""


SEED_PRIOR = 0.05  # success rate of an arm that was never tried
SEED_ALPHA = 0.1
SEED_EXPLORATION = 1.5


def seed_score(success_rate: float, trials: int, all_trials: int) -> float:
    mean = success_rate
    n = max(1, trials)
    N = all_trials + 1  # noqa: N806 as it is documented
    exploration: float = SEED_EXPLORATION * ((2 * N.bit_length()) / n) ** 0.5
    return mean + exploration


def seed_rate(old: float, success: bool) -> float:
    """success_rate <- 0.9 * old + 0.1 * (1 if success else 0)"""
    return (1 - SEED_ALPHA) * old + SEED_ALPHA * (1 if success else 0)


class SeedBandit:
    def __init__(self) -> None:
        self.success_rate: dict[str, float] = {}
        self.trials: Counter[str] = Counter()

    def choose(self, arms: Sequence[str], shape: GoalShape) -> str:
        total = self.trials.total()
        return max(arms, key=lambda arm: seed_score(self.success_rate.get(arm, SEED_PRIOR), self.trials[arm], total))

    def learn(self, arm: str, shape: GoalShape, success: bool, seconds: float) -> None:
        self.success_rate[arm] = seed_rate(self.success_rate.get(arm, SEED_PRIOR), success)
        self.trials[arm] += 1


def ucb1_score(successes: float, trials: int, all_trials: int) -> float:
    """An arm that was never tried comes before all others."""
    if not trials:
        return inf
    return successes / trials + sqrt(2 * log(all_trials) / trials)


class Ucb1Bandit:
    def __init__(self) -> None:
        self.successes: Counter[str] = Counter()
        self.trials: Counter[str] = Counter()

    def choose(self, arms: Sequence[str], shape: GoalShape) -> str:
        total = self.trials.total()
        return max(arms, key=lambda arm: ucb1_score(self.successes[arm], self.trials[arm], total))

    def learn(self, arm: str, shape: GoalShape, success: bool, seconds: float) -> None:
        self.successes[arm] += success
        self.trials[arm] += 1


DISCOUNT = 0.995  # of the weight of an attempt, each time that another one ends
CLASS_WEIGHT = 4.0  # so many attempts of its own count as much as what all classes say
DISCOUNTED_EXPLORATION = 0.1  # how much is explored
PRIOR_RATE = 0.3
FIRST_SECONDS = 1.0  # of an attempt or a failure before there is any; then, what they usually cost
LEAST_SECONDS = 0.01  # no attempt is free, whatever the clock says
EVERY = ""  # stands for the class of all goals, and for all arms


class ArmTally(NamedTuple):
    """Faded tally of attempts that ended: how many, successful ones, seconds; and when it was worked out."""

    trials: float = 0.0
    successes: float = 0.0
    seconds: float = 0.0
    at: int = 0

    def fade(self, now: int) -> ArmTally:
        kept = DISCOUNT ** (now - self.at)
        return ArmTally(self.trials * kept, self.successes * kept, self.seconds * kept, now)

    def add_attempt(self, success: bool, seconds: float) -> ArmTally:
        return ArmTally(self.trials + 1, self.successes + success, self.seconds + seconds, self.at)


def discounted_score(rate: float, seconds: float, trials: float, all_trials: float) -> float:
    """The largest rate that is plausible, per second."""
    bonus = sqrt(DISCOUNTED_EXPLORATION * log(1 + all_trials) / max(1.0, trials))
    return min(1.0, rate + bonus) / max(LEAST_SECONDS, seconds)


class DiscountedBandit:
    def __init__(self) -> None:
        self.now = 0
        self.tallies: dict[tuple[str, str], ArmTally] = {}

    def choose(self, arms: Sequence[str], shape: GoalShape) -> str:
        every = self._tally(EVERY, EVERY)
        return max(arms, key=lambda arm: self._score(arm, shape.kind, every))

    def _score(self, arm: str, kind: str, every: ArmTally) -> float:
        wide, own = self._tally(EVERY, arm), self._tally(kind, arm)
        usual = every.seconds / every.trials if every.trials else FIRST_SECONDS
        rate = (wide.successes + PRIOR_RATE) / (wide.trials + 1)
        seconds = (wide.seconds + usual) / (wide.trials + 1)
        rate = (own.successes + CLASS_WEIGHT * rate) / (own.trials + CLASS_WEIGHT)
        seconds = (own.seconds + CLASS_WEIGHT * seconds) / (own.trials + CLASS_WEIGHT)
        return discounted_score(rate, seconds, min(own.trials + CLASS_WEIGHT, wide.trials), every.trials)

    def _tally(self, kind: str, arm: str) -> ArmTally:
        return self.tallies.get((kind, arm), ArmTally()).fade(self.now)

    def learn(self, arm: str, shape: GoalShape, success: bool, seconds: float) -> None:
        self.now += 1
        for key in dict.fromkeys(((EVERY, EVERY), (EVERY, arm), (shape.kind, arm))):
            self.tallies[key] = self._tally(*key).add_attempt(success, seconds)


# Variances of weights that nothing is known of; their means are then 0.
ARM_VARIANCE, KIND_VARIANCE, FAILURE_VARIANCE, TRAIT_VARIANCE = 1.0, 0.3, 0.3, 0.05
OPTIMISM = 0.7  # in standard deviations, times the root of the logarithm of all attempts
SHARED_ARM = ""  # stands for all arms

Weight = tuple[float, float]  # mean and variance
WeightKey = tuple[str, str]  # arm and trait
FailureCost = tuple[float, int]  # seconds, and how many


def logistic(logit: float) -> float:
    return 1 / (1 + exp(-max(-30.0, min(30.0, logit))))


class ContextualBandit:
    def __init__(self) -> None:
        self.weights: dict[WeightKey, Weight] = {}
        self.failures: dict[str, FailureCost] = {}
        self.attempts = 0

    def choose(self, arms: Sequence[str], shape: GoalShape) -> str:
        hoped, seconds = self._plausible_logits(arms, shape), [self._failure_seconds(arm) for arm in arms]
        alone = [self._others_alone(n, arms, hoped, shape) for n in range(len(arms))]

        def regret(one: int) -> float:
            others = (other for other in range(len(arms)) if other != one)
            lost = (alone[one][other] * seconds[one] - alone[other][one] * seconds[other] for other in others)
            return max(lost, default=0.0)

        return arms[min(range(len(arms)), key=regret)]

    def _plausible_logits(self, arms: Sequence[str], shape: GoalShape) -> list[float]:
        """The largest logits that are plausible."""
        hope = OPTIMISM * sqrt(log(1 + self.attempts))
        mean, variance = self._logit(SHARED_ARM, shape)
        own = (self._logit(arm, shape) for arm in arms)
        return [mean + one + hope * sqrt(variance + uncertain) for one, uncertain in own]

    def _others_alone(self, fails: int, arms: Sequence[str], hoped: Sequence[float], shape: GoalShape) -> list[float]:
        """Chances of each arm to prove the goal where that one fails."""
        likely, trait = 1 - logistic(hoped[fails]), shape.failure_trait(arms[fails])
        shared = self._weight_mean(SHARED_ARM, trait)
        return [likely * logistic(hoped[n] + shared + self._weight_mean(arm, trait)) for n, arm in enumerate(arms)]

    def _weight_mean(self, arm: str, trait: str) -> float:
        return self.weights.get((arm, trait), (0.0, 0.0))[0]

    def _logit(self, arm: str, shape: GoalShape) -> Weight:
        mean = variance = 0.0
        for key, prior in _weight_keys(arm, shape):  # not sum(): how it rounds depends on the version of Python
            known = self.weights.get(key, (0.0, prior))
            mean, variance = mean + known[0], variance + known[1]
        return mean, variance

    def _failure_seconds(self, arm: str) -> float:
        """Seconds of a failure; the average of all arms counts as one of its own."""
        all_seconds, all_count = self.failures.get(SHARED_ARM, (FIRST_SECONDS, 1))
        seconds, count = self.failures.get(arm, (0.0, 0))
        return (seconds + all_seconds / all_count) / (count + 1)

    def learn(self, arm: str, shape: GoalShape, success: bool, seconds: float) -> None:
        self.attempts += 1
        if not success:
            for charged in (SHARED_ARM, arm):
                spent, count = self.failures.get(charged, (0.0, 0))
                self.failures[charged] = (spent + seconds, count + 1)
        keys = (*_weight_keys(SHARED_ARM, shape), *_weight_keys(arm, shape))
        known = {key: self.weights.get(key, (0.0, prior)) for key, prior in keys}
        expected = logistic(sum(mean for mean, _ in known.values()))
        slope = expected * (1 - expected)
        gain = 1 / (1 + slope * sum(variance for _, variance in known.values()))
        for key, (mean, variance) in known.items():
            moved = mean + gain * variance * (success - expected)
            self.weights[key] = (moved, variance * (1 - gain * slope * variance))


def _weight_keys(arm: str, shape: GoalShape) -> Iterator[tuple[WeightKey, float]]:
    """Keys of the weights that bear on the arm, each with its first variance.

    How often goals are proved at all, each arm learns by itself: what one proves is not to the others' credit."""
    if arm != SHARED_ARM:
        yield (arm, ""), ARM_VARIANCE
    yield (arm, shape.kind), KIND_VARIANCE
    for trait in shape.traits:
        yield (arm, trait), FAILURE_VARIANCE if trait.startswith(FAILED_TRAIT) else TRAIT_VARIANCE


BANDITS: dict[str, Callable[[], Bandit]] = {
    "seed": SeedBandit,
    "ucb1": Ucb1Bandit,
    "discounted": DiscountedBandit,
    "contextual": ContextualBandit,
}
