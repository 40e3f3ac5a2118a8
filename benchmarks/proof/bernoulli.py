"""Regret of the bandits on arms of which everything is known: each succeeds with a chance of its own, at a cost.

Regret is what was lost against always taking the arm with the most successes per second, in successes; where all cost
a second, it is the usual one.  All bandits meet the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from pipeline.proof.schedule.bandits import BANDITS, GoalShape

ALIKE = GoalShape("?")  # there is nothing to tell goals apart by
PULLS = 2000
SEEDS = 40
POINTS = 50  # of a curve


class Setting(NamedTuple):
    """`later`: the chances in the second half, where they are others."""

    title: str
    chances: tuple[float, ...]
    costs: tuple[float, ...] = ()
    later: tuple[float, ...] = ()

    def at(self, pull: int, pulls: int) -> tuple[float, ...]:
        return self.later if self.later and pull >= pulls / 2 else self.chances

    def cost(self, arm: int) -> float:
        return self.costs[arm] if self.costs else 1.0


SETTINGS = {
    "far": Setting("far apart: 0.8, 0.5, 0.2", (0.5, 0.8, 0.2)),
    "near": Setting("near: 0.55, 0.50, 0.45", (0.5, 0.45, 0.55)),
    "many": Setting("ten arms: 0.5, others 0.1 to 0.4", (0.1, 0.2, 0.3, 0.4, 0.1, 0.2, 0.5, 0.3, 0.4, 0.2)),
    "rare": Setting("rare successes: 0.05, 0.02, 0.01", (0.02, 0.05, 0.01)),
    "change": Setting("0.7 and 0.3, half-way exchanged", (0.7, 0.3), later=(0.3, 0.7)),
    "costs": Setting("0.6 in 5 s, 0.4 in 1 s, 0.2 in 0.2 s", (0.6, 0.4, 0.2), costs=(5.0, 1.0, 0.2)),
}


class Mean(NamedTuple):
    """With half of its 95 % interval."""

    mean: float
    half: float


def mean(values: Sequence[float]) -> Mean:
    n = len(values)
    middle = sum(values) / n
    variance = sum((each - middle) ** 2 for each in values) / max(1, n - 1)
    return Mean(middle, 1.96 * (variance / n) ** 0.5)


def regret(name: str, setting: Setting, seed: int, pulls: int = PULLS) -> list[float]:
    """After each pull, since the first."""
    bandit, rng = BANDITS[name](), Random(seed)
    arms = [f"arm {n}" for n in range(len(setting.chances))]
    lost, total = [], 0.0
    for pull in range(pulls):
        chances, draws = setting.at(pull, pulls), [rng.random() for _ in arms]
        chosen = bandit.choose(arms, ALIKE)
        arm = arms.index(chosen)
        bandit.learn(chosen, ALIKE, draws[arm] < chances[arm], setting.cost(arm))
        fastest = max(chance / setting.cost(n) for n, chance in enumerate(chances))
        total += fastest * setting.cost(arm) - chances[arm]
        lost.append(total)
    return lost


def by_turns(setting: Setting, pulls: int = PULLS) -> list[float]:
    """Of whoever takes the arms by turns."""
    lost, total, count = [], 0.0, len(setting.chances)
    for pull in range(pulls):
        chances, arm = setting.at(pull, pulls), pull % count
        fastest = max(chance / setting.cost(n) for n, chance in enumerate(chances))
        total += fastest * setting.cost(arm) - chances[arm]
        lost.append(total)
    return lost


Curve = list[tuple[int, float, float]]  # at so many pulls, the mean and half of its interval


def curve(runs: Sequence[Sequence[float]]) -> Curve:
    pulls = len(runs[0])
    places = [(n + 1) * pulls // POINTS for n in range(POINTS)]
    return [(place, *mean([run[place - 1] for run in runs])) for place in places]


def regrets(seeds: int = SEEDS, pulls: int = PULLS) -> dict[str, dict[str, Curve]]:
    """By setting and bandit, `by turns` among them."""
    return {key: _regrets(setting, seeds, pulls) for key, setting in SETTINGS.items()}


def _regrets(setting: Setting, seeds: int, pulls: int) -> dict[str, Curve]:
    of = {name: curve([regret(name, setting, seed, pulls) for seed in range(seeds)]) for name in BANDITS}
    return {**of, "by turns": curve([by_turns(setting, pulls)])}
