"""The documented bandit, `seed`: a moving average of success, and a bonus for what was tried little.

The formula is kept to the letter, and its bonus is larger than it should be.  `bit_length` is the logarithm to base 2
rounded up, 1.4 times and more the natural one, and the constant makes it 1.5 times larger again.  With N = 100 trials
in all, the bonus of an arm is more than 1, the most that a rate can differ by, until it was tried 31 times.  So in a
run of a few hundred attempts, arms that differ by a tenth are taken nearly by turns; the others learn sooner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.proof.bandits.model import Shape, best

PRIOR = 0.05  # success rate of an arm that was never tried
ALPHA = 0.1
EXPLORATION = 1.5


def ucb_score(success_rate: float, trials: int, all_trials: int) -> float:
    mean = success_rate
    n = max(1, trials)
    N = all_trials + 1  # noqa: N806 as it is documented
    exploration: float = EXPLORATION * ((2 * N.bit_length()) / n) ** 0.5
    return mean + exploration


def updated_rate(old: float, success: bool) -> float:
    """success_rate <- 0.9 * old + 0.1 * (1 if success else 0)"""
    return (1 - ALPHA) * old + ALPHA * (1 if success else 0)


class Seed:
    def __init__(self) -> None:
        self.success_rate: dict[str, float] = {}
        self.trials: dict[str, int] = {}

    def ucb_score(self, strategy: str, all_trials: int | None = None) -> float:
        total = sum(self.trials.values()) if all_trials is None else all_trials
        return ucb_score(self.success_rate.get(strategy, PRIOR), self.trials.get(strategy, 0), total)

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        total = sum(self.trials.values())
        return best(arms, lambda arm: self.ucb_score(arm, total), n)

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        self.success_rate[arm] = updated_rate(self.success_rate.get(arm, PRIOR), success)
        self.trials[arm] = self.trials.get(arm, 0) + 1

    def learned(self) -> Mapping[str, Any]:
        return {"success_rate": dict(self.success_rate), "trials": dict(self.trials)}

    def restore(self, learned: Mapping[str, Any]) -> None:
        self.success_rate, self.trials = dict(learned["success_rate"]), dict(learned["trials"])
