"""Records of a proof search: rules, trials, outcomes, and a worker's result.

A trial is one strategy on one goal with one budget. It ends `proved`, `failed` or `cancelled`. A goal is on the
`frontier` until it is `solved` or, when all strategies failed at all levels, `exhausted`.

`WorkerResult.success` is a claim; whether it counts is for the check to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.goals.bank import Goal

TIMEOUTS = {"micro": 8.0, "copilot": 20.0, "reprover": 60.0, "sketch": 6.0}
# In the metadata of what a worker raised.  That is a mistake in the worker and says nothing of the goal: once it is
# mended, nobody wants it recalled.
RAISED = "raised"


@dataclass(frozen=True)
class WorkerResult:
    """One attempt.  `tactics` is the proof, a line of script each."""

    success: bool
    strategy: str
    tactics: tuple[str, ...] = ()
    time_seconds: float = 0.0
    subgoals: tuple[str, ...] = ()
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


LIGHT, HEAVY = "light", "heavy"
PROVED, FAILED, CANCELLED = "proved", "failed", "cancelled"
SOLVED, EXHAUSTED, FRONTIER = "solved", "exhausted", "frontier"
# A trial:  running -> PROVED | FAILED, by its worker and the check
#           running -> CANCELLED   another trial proved the goal, or the search was stopped: its strategy is left again
# A goal:   FRONTIER -> SOLVED     a trial PROVED it
#           FRONTIER -> FRONTIER   all strategies FAILED at this level: once more at the next, with a larger budget
#           FRONTIER -> EXHAUSTED  they FAILED at the last level
# SOLVED and EXHAUSTED are final.
CACHE = "cache"  # the strategy that does again what proved the same goal before


class Strategy(NamedTuple):
    """An arm of the bandit; `timeout` is its budget, in seconds, at the first level."""

    name: str
    timeout: float


@dataclass(frozen=True)
class ScheduleRules:
    """Rules that decide which trial comes next, beside the goals and how trials end.

    speculate: so many strategies are tried on one goal at once
    levels, factor: a goal on which all strategies failed is tried again, with `factor` times the budget
    rounds: not before all others had as much, whatever their priority
    light, heavy: how many trials may run at once on goals below `threshold`, and on the others
    cache_rate: what proved a goal before is tried first if it works more often than that
    cpu_target: the load per CPU above which starting is slowed down; None for never"""

    strategies: tuple[Strategy, ...]
    bandit: str = "discounted"
    speculate: int = 3
    levels: int = 2
    factor: float = 4.0
    rounds: bool = False
    light: int = 8
    heavy: int = 2
    threshold: float = 0.6
    cache_rate: float = 0.7
    cache_timeout: float = 60.0  # that of a check, which is all there is to it
    cpu_target: float | None = None

    def __post_init__(self) -> None:
        names = [strategy.name for strategy in self.strategies]
        if not names or len({*names, CACHE}) <= len(names):
            raise ValueError(f"strategies must be one or more different names other than '{CACHE}': {names}")
        if min(self.speculate, self.levels, self.light, self.heavy) < 1:
            raise ValueError("speculate, levels, light and heavy must be at least 1")

    def budget(self, strategy: Strategy, level: int) -> float:
        return strategy.timeout * self.factor**level


class Trial(NamedTuple):
    """One strategy on one goal, for at most `budget` seconds; `number` counts trials from 1."""

    number: int
    goal: str
    strategy: str
    level: int
    budget: float
    room: str


class TrialOutcome(NamedTuple):
    """`seconds` is what it took, `why` what went wrong."""

    trial: int
    status: str
    seconds: float = 0.0
    why: str = ""


class GoalOutcome(NamedTuple):
    """`status`: how far the search got with it.  `attempts` were not cancelled; `by` is the trial that proved it."""

    goal: Goal
    status: str
    level: int
    attempts: int
    by: Trial | None = None
