"""One goal of a search: what was tried on it, what is being tried, and what is left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.goals.model import Goal
from pipeline.proof.bandits.model import Shape
from pipeline.proof.queues import Place
from pipeline.proof.shape import shape
from pipeline.proof.trials import CACHE, EXHAUSTED, FRONTIER, HEAVY, LIGHT, SOLVED, Rules, Standing, Strategy, Trial

# Each level that a goal has survived takes away so much of what is left to the greatest difficulty.
HARDER = 0.5


class Flight(NamedTuple):
    """A trial that runs, and what the bandit saw of the goal when it chose it."""

    trial: Trial
    looked: Shape


@dataclass
class Effort:
    """`arms` are the strategies left at this level, in the order of the rules; `looks` is what bandits see of the goal.

    `known`: attempts, by strategy and level, of which it is recalled how they end; in the order they were made.

    While the cache is to be tried it is the only arm: what proved a goal before is cheap, and mostly right."""

    goal: Goal
    order: int
    rules: Rules
    arms: list[Strategy]
    looks: Shape
    known: tuple[tuple[str, int], ...] = ()
    level: int = 0
    flying: dict[int, Flight] = field(default_factory=dict)
    attempts: int = 0
    by: Trial | None = None

    @property
    def difficulty(self) -> float:
        """As it is estimated: a goal that withstood all strategies is harder than its bank says."""
        return 1 - (1 - self.goal.difficulty) * HARDER**self.level

    @property
    def room(self) -> str:
        return HEAVY if self.difficulty >= self.rules.threshold else LIGHT

    @property
    def place(self) -> Place:
        later = 2.0 * self.level if self.rules.rounds else 0.0  # more than priorities, from 0 to 1, can differ by
        return Place(later - self.goal.priority, self.difficulty, self.order)

    @property
    def waits(self) -> bool:
        """Could a trial start on it now?"""
        return bool(self.by is None and self.arms and len(self.flying) < self.width)

    @property
    def width(self) -> int:
        return 1 if any(each.trial.strategy == CACHE for each in self.flying.values()) else self.rules.speculate

    @property
    def names(self) -> list[str]:
        """What may be chosen now.  What is recalled comes first, and as it came then: so it adds up to the same."""
        left = [strategy.name for strategy in self.arms]
        return [name for name, level in self.known if level == self.level and name in left][:1] or left

    def start(self, number: int, name: str) -> Trial:
        strategy = next(each for each in self.arms if each.name == name)
        self.arms.remove(strategy)
        trial = Trial(number, self.goal.id, name, self.level, self.rules.budget(strategy, self.level), self.room)
        self.flying[number] = Flight(trial, self.looks)
        if name == CACHE:
            self.arms = [*self.rules.strategies]
        return trial

    def give_back(self, trial: Trial) -> None:
        """It was cancelled: nothing is known that was not known before.  The order of arms stays that of the rules."""
        if trial.level == self.level and trial.strategy != CACHE:
            left = {trial.strategy, *(each.name for each in self.arms)}
            self.arms = [each for each in self.rules.strategies if each.name in left]

    def failed(self, trial: Trial) -> None:
        self.attempts += 1
        self.looks = self.looks.after(trial.strategy, trial.level)
        if not self.arms and not self.flying and self.by is None and self.level + 1 < self.rules.levels:
            self.level += 1
            self.arms = [*self.rules.strategies]

    def proved(self, trial: Trial) -> None:
        self.attempts += 1
        self.by = self.by or trial

    @property
    def status(self) -> str:
        if self.by:
            return SOLVED
        return FRONTIER if self.arms or self.flying else EXHAUSTED

    def standing(self) -> Standing:
        return Standing(self.goal, self.status, self.level, self.attempts, self.by)


def effort(goal: Goal, order: int, rules: Rules, cached: float | None, known: Iterable[tuple[str, int]]) -> Effort:
    first = [Strategy(CACHE, rules.cache_timeout)] if cached is not None and cached > rules.cache_rate else None
    return Effort(goal, order, rules, first or [*rules.strategies], shape(goal), tuple(known))
