"""Successes per second, by class of goal, what is long ago counting less (Garivier and Moulines 2011).

Whoever may try all arms on a goal until one succeeds solves it soonest by trying them in the order of chance divided by
cost.  Old attempts fade, since a bank gets harder as it is worked through: the easy goals go first.  What a class has
not shown itself is filled in from all classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any, NamedTuple

from pipeline.proof.bandits.model import Shape, best

KEPT = 0.995  # of the weight of an attempt, each time that another one ends
WEIGHT = 4.0  # so many attempts of its own count as much as what all classes say
XI = 0.1  # how much is explored
PRIOR_RATE = 0.3
FIRST_SECONDS = 1.0  # before any attempt; then, an arm that is not known is taken to cost what attempts usually do
LEAST_SECONDS = 0.01  # no attempt is free, whatever the clock says
ALL = ""  # stands for the class of all goals, and for all arms


class Tally(NamedTuple):
    """Of attempts that ended, faded: how many, successful ones, seconds; and when that was worked out."""

    trials: float = 0.0
    successes: float = 0.0
    seconds: float = 0.0
    at: int = 0

    def faded(self, now: int) -> Tally:
        kept = KEPT ** (now - self.at)
        return Tally(self.trials * kept, self.successes * kept, self.seconds * kept, now)

    def counted(self, success: bool, seconds: float) -> Tally:
        return Tally(self.trials + 1, self.successes + success, self.seconds + seconds, self.at)


def discounted_score(rate: float, seconds: float, trials: float, all_trials: float) -> float:
    """The largest rate that is plausible, per second."""
    bonus = sqrt(XI * log(1 + all_trials) / max(1.0, trials))
    return min(1.0, rate + bonus) / max(LEAST_SECONDS, seconds)


class Discounted:
    def __init__(self) -> None:
        self.now = 0
        self.tallies: dict[tuple[str, str], Tally] = {}

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        every = self._tally(ALL, ALL)
        return best(arms, lambda arm: self._score(arm, shape.kind, every), n)

    def _score(self, arm: str, kind: str, every: Tally) -> float:
        wide, own = self._tally(ALL, arm), self._tally(kind, arm)
        usual = every.seconds / every.trials if every.trials else FIRST_SECONDS
        rate = (wide.successes + PRIOR_RATE) / (wide.trials + 1)
        seconds = (wide.seconds + usual) / (wide.trials + 1)
        rate = (own.successes + WEIGHT * rate) / (own.trials + WEIGHT)
        seconds = (own.seconds + WEIGHT * seconds) / (own.trials + WEIGHT)
        return discounted_score(rate, seconds, min(own.trials + WEIGHT, wide.trials), every.trials)

    def _tally(self, kind: str, arm: str) -> Tally:
        return self.tallies.get((kind, arm), Tally()).faded(self.now)

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        self.now += 1
        for place in dict.fromkeys(((ALL, ALL), (ALL, arm), (shape.kind, arm))):
            self.tallies[place] = self._tally(*place).counted(success, seconds)

    def learned(self) -> Mapping[str, Any]:
        return {"now": self.now, "tallies": [[kind, arm, *tally] for (kind, arm), tally in self.tallies.items()]}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.now = learned["now"]
        self.tallies = {(kind, arm): Tally(*tally) for kind, arm, *tally in learned["tallies"]}
