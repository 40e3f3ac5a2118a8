"""State of one goal in the schedule, and the queue of waiting goals.

Features are read off the text of the goal: a class by which attempts are counted, and traits that a bandit learns by.
There is one queue for each room, ordered by urgency, then difficulty, then the order of the bank.

A goal goes up a level when all strategies of the level have failed and none runs; at the last level it is exhausted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from typing import NamedTuple

from pipeline.goals.bank import Goal
from pipeline.proof.schedule.bandits import GoalShape
from pipeline.proof.schedule.records import (
    CACHE,
    EXHAUSTED,
    FRONTIER,
    HEAVY,
    LIGHT,
    SOLVED,
    GoalOutcome,
    ScheduleRules,
    Strategy,
    Trial,
)

# The first type of these that a statement names is what it is about.
TYPES = ("List", "Option", "Fin", "Bool", "Int", "Nat", "Prop")
# Signs and words whose being there is a trait.
SIGNS = (
    "∃", "∧", "∨", "¬", "↔", "≠", "≤", "<", "∣", "%", "/", "^", "*", "-", "+", "∈", "::", "++", "fun", "if", "!", "&&",
    "||",
)  # fmt: skip
RELATIONS = ("↔", "∨", "∧", "≠", "=", "≤", "<", "≥", ">", "∣", "¬")
_BINDER = re.compile(r"[({∀∃]")
_NUMBER = re.compile(r"(?<![\w.])\d+")
_WORD = re.compile(r"[A-Za-z]\w*")


@lru_cache(maxsize=4096)
def statement_shape(text: str) -> GoalShape:
    words, conclusion = set(_WORD.findall(text)), _conclusion(text)
    kind = next((each for each in TYPES if each in words), "?")
    relation = next((sign for sign in RELATIONS if sign in conclusion), "?")
    return GoalShape(f"{kind} {relation}", tuple(dict.fromkeys(_traits(text, words, conclusion))))


def _conclusion(text: str) -> str:
    """The statement under all hypotheses: the text after the last comma or arrow outside of brackets."""
    depth, start = 0, 0
    for end, sign in enumerate(text, 1):
        depth += (sign in "([{⟨") - (sign in ")]}⟩")
        if depth == 0 and sign in ",→":
            start = end
    return text[start:]


def _traits(text: str, words: set[str], conclusion: str) -> Iterator[str]:
    yield from (f"about {each}" for each in TYPES if each in words)
    yield from (f"has {sign}" for sign in SIGNS if sign in text)
    yield from (f"shows {sign}" for sign in SIGNS if sign in conclusion)
    numbers = [int(each) for each in _NUMBER.findall(text)]
    yield f"numbers {_steps_reached(max(numbers, default=0), 1, 10, 100, 10_000)}"
    yield f"binders {_steps_reached(len(_BINDER.findall(text)), 1, 2, 4, 7)}"
    yield f"long {_steps_reached(len(text), 30, 60, 120, 240)}"
    if re.search(r": \w+ → ", text):
        yield "has functions"


def _steps_reached(value: int, *steps: int) -> int:
    return sum(value >= step for step in steps)


class QueueKey(NamedTuple):
    """The smallest is tried first: the highest priority, of those the easiest, of those the first in the bank."""

    urgency: float  # priority, negated; where goals take rounds, after the round
    difficulty: float
    order: int


class GoalQueues:
    """A goal that leaves before its turn stays in the heap and is passed over later: leaving costs nothing."""

    def __init__(self, rooms: Iterable[str]) -> None:
        self._heaps: dict[str, list[QueueKey]] = {room: [] for room in rooms}
        self._waiting: dict[int, tuple[str, QueueKey]] = {}  # by the goal's number in the bank

    def enter(self, room: str, key: QueueKey) -> None:
        if self._waiting.get(key.order) != (room, key):
            self._waiting[key.order] = (room, key)
            heappush(self._heaps[room], key)

    def leave(self, order: int) -> None:
        self._waiting.pop(order, None)

    def first(self, room: str) -> QueueKey | None:
        heap = self._heaps[room]
        while heap and self._waiting.get(heap[0].order) != (room, heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def __len__(self) -> int:
        return len(self._waiting)


# Each level that a goal has survived halves its distance to the greatest difficulty.
LEFT_AT_NEXT_LEVEL = 0.5


@dataclass
class Effort:
    """`arms` are the strategies left at this level, in the order of the rules; `shape` is what bandits see of the goal.

    `flying`: trials that run, each with the shape by which it was chosen.

    `known`: attempts, by strategy and level, of which it is recalled how they end; in the order they were made.

    While the cache is to be tried it is the only arm: what proved a goal before is cheap, and mostly right."""

    goal: Goal
    order: int
    rules: ScheduleRules
    arms: list[Strategy]
    shape: GoalShape
    known: tuple[tuple[str, int], ...] = ()
    level: int = 0
    flying: dict[int, tuple[Trial, GoalShape]] = field(default_factory=dict)
    attempts: int = 0
    by: Trial | None = None

    @property
    def difficulty(self) -> float:
        """Estimated difficulty: a goal that withstood all strategies is harder than its bank says."""
        return 1 - (1 - self.goal.difficulty) * LEFT_AT_NEXT_LEVEL**self.level

    @property
    def room(self) -> str:
        return HEAVY if self.difficulty >= self.rules.threshold else LIGHT

    @property
    def queue_key(self) -> QueueKey:
        later = 2.0 * self.level if self.rules.rounds else 0.0  # more than priorities, from 0 to 1, can differ by
        return QueueKey(later - self.goal.priority, self.difficulty, self.order)

    @property
    def is_waiting(self) -> bool:
        """True if a trial could start on it now."""
        return bool(self.by is None and self.arms and len(self.flying) < self.width)

    @property
    def width(self) -> int:
        return 1 if any(trial.strategy == CACHE for trial, _ in self.flying.values()) else self.rules.speculate

    @property
    def names(self) -> list[str]:
        """Arms that may be chosen now.  Recalled attempts come first, in their old order: so counts add up the same."""
        left = [strategy.name for strategy in self.arms]
        return [name for name, level in self.known if level == self.level and name in left][:1] or left

    def start(self, number: int, name: str) -> Trial:
        strategy = next(each for each in self.arms if each.name == name)
        self.arms.remove(strategy)
        trial = Trial(number, self.goal.id, name, self.level, self.rules.budget(strategy, self.level), self.room)
        self.flying[number] = trial, self.shape
        if name == CACHE:
            self.arms = [*self.rules.strategies]
        return trial

    def give_back(self, trial: Trial) -> None:
        """Put back the arm of a cancelled trial, which says nothing.  The order of arms stays that of the rules."""
        if trial.level == self.level and trial.strategy != CACHE:
            left = {trial.strategy, *(each.name for each in self.arms)}
            self.arms = [each for each in self.rules.strategies if each.name in left]

    def mark_ended(self, trial: Trial, proved: bool) -> None:
        self.attempts += 1
        if proved:
            self.by = self.by or trial
            return
        self.shape = self.shape.after_failure(trial.strategy, trial.level)
        if not self.arms and not self.flying and self.by is None and self.level + 1 < self.rules.levels:
            self.level += 1
            self.arms = [*self.rules.strategies]

    @property
    def status(self) -> str:
        if self.by:
            return SOLVED
        return FRONTIER if self.arms or self.flying else EXHAUSTED

    def outcome(self) -> GoalOutcome:
        return GoalOutcome(self.goal, self.status, self.level, self.attempts, self.by)
