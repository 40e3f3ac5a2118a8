"""Attempts that were recorded once, played again: which order of arms proves which goals in how many CPU seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import NamedTuple

from pipeline.goals.bank import read_bank
from pipeline.proof.schedule.bandits import Bandit, GoalShape
from pipeline.proof.schedule.effort import statement_shape


class Tried(NamedTuple):
    """What an arm did on a goal."""

    success: bool
    seconds: float


class Item(NamedTuple):
    """A goal, as bandits see it, and what each arm does on it."""

    id: str
    shape: GoalShape
    tried: Mapping[str, Tried]

    @property
    def provable(self) -> bool:
        return any(each.success for each in self.tried.values())


class Ended(NamedTuple):
    """After how many CPU seconds a goal was proved, or given up."""

    success: bool
    seconds: float


Order = Callable[[Item], Sequence[str]]


def load(recording: Path, bank: Path) -> list[Item]:
    """Statements are not in the recording: what goals look like is read off their bank."""
    found = json.loads(recording.read_text())
    goals = {goal.id: goal for goal in read_bank(bank.read_bytes()).goals}
    return [
        Item(name, statement_shape(goals[name].text), _by_arm(found["arms"], tried))
        for name, tried in found["goals"].items()
        if name in goals and tried
    ]


def _by_arm(arms: Sequence[str], tried: Sequence[tuple[int, float]]) -> dict[str, Tried]:
    return {arm: Tried(bool(success), seconds) for arm, (success, seconds) in zip(arms, tried, strict=True)}


def ended(item: Item, order: Iterable[str]) -> Ended:
    """The arms one by one, until one proves it."""
    seconds = 0.0
    for arm in order:
        seconds += item.tried[arm].seconds
        if item.tried[arm].success:
            return Ended(True, seconds)
    return Ended(False, seconds)


def played(item: Item, bandit: Bandit) -> Ended:
    """As the scheduler does it: asked for one arm after another, told how each ended."""
    looks, left, seconds = item.shape, [*item.tried], 0.0
    while left:
        arm = bandit.choose(left, looks)
        left.remove(arm)
        success, took = item.tried[arm]
        bandit.learn(arm, looks, success, took)
        looks, seconds = looks.after_failure(arm, 0), seconds + took
        if success:
            return Ended(True, seconds)
    return Ended(False, seconds)


def best_order(items: Sequence[Item]) -> tuple[str, ...]:
    """The one that takes the least for all of them; by trying all orders."""
    costs = [_with_costs(item) for item in items if item.provable]
    return min(permutations(items[0].tried), key=lambda order: sum(_until(item, order) for item in costs))


def _with_costs(item: Item) -> dict[str, tuple[bool, float]]:
    return {arm: (each.success, each.seconds) for arm, each in item.tried.items()}


def _until(costs: Mapping[str, tuple[bool, float]], order: Iterable[str]) -> float:
    seconds = 0.0
    for arm in order:
        success, took = costs[arm]
        seconds += took
        if success:
            break
    return seconds


def oracle(item: Item) -> Sequence[str]:
    """Who knows beforehand: the fastest arm that proves it."""
    proofs = {arm: each.seconds for arm, each in item.tried.items() if each.success}
    return [min(proofs, key=proofs.__getitem__)] if proofs else [*item.tried]


def shuffled(item: Item, rng: Random) -> Sequence[str]:
    return rng.sample([*item.tried], len(item.tried))


def restricted(items: Sequence[Item], arms: Sequence[str]) -> list[Item]:
    """As if there were these arms alone."""
    return [item._replace(tried={arm: item.tried[arm] for arm in arms}) for item in items]
