"""UCB1 (Auer, Cesa-Bianchi, Fischer 2002): the mean of all trials, and the bonus that theory asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log, sqrt
from typing import Any

from pipeline.proof.bandits.model import Shape, best


def ucb1_score(successes: float, trials: int, all_trials: int) -> float:
    """An arm that was never tried comes before all others."""
    if not trials:
        return inf
    return successes / trials + sqrt(2 * log(all_trials) / trials)


class Ucb1:
    def __init__(self) -> None:
        self.successes: dict[str, int] = {}
        self.trials: dict[str, int] = {}

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        total = sum(self.trials.values())
        return best(arms, lambda arm: ucb1_score(self.successes.get(arm, 0), self.trials.get(arm, 0), total), n)

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        self.successes[arm] = self.successes.get(arm, 0) + success
        self.trials[arm] = self.trials.get(arm, 0) + 1

    def learned(self) -> Mapping[str, Any]:
        return {"successes": dict(self.successes), "trials": dict(self.trials)}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.successes, self.trials = dict(learned["successes"]), dict(learned["trials"])
