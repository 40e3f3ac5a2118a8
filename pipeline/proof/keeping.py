"""What was tried is in the ledger before anything is decided on it; what is there is not tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.ledger.model import Attempt, Key, KnownGoal
from pipeline.edge.process import Processes, Stopping
from pipeline.goals.model import Goal
from pipeline.proof.model import RAISED, Result
from pipeline.proof.trials import CACHE, Rules, Trial


class Tried(NamedTuple):
    """An attempt that has ended.  `recalled`: some time ago."""

    trial: Trial
    result: Result
    recalled: bool


def known(goal: Goal) -> KnownGoal:
    return KnownGoal(goal.key, goal.text, goal.context, goal.id, goal.difficulty, goal.priority)


class Keeping:
    """`config`: what of a strategy decides an attempt at a goal, besides its budget and the toolchain."""

    def __init__(
        self,
        ledger: Ledger,
        processes: Processes,
        config: Callable[[Goal, str], str],
        toolchain: str,
        run: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tried: dict[str, list[Tried]] = {}  # by goal, in the order they ended
        self._ledger, self._processes, self._config = ledger, processes, config
        self._toolchain, self._run, self._clock = toolchain, run, clock

    def kept(self, goal: Goal, rules: Rules) -> dict[tuple[str, int], bool]:
        """Attempts of such a search that were made before, by strategy and level, in that order; is it a proof?"""
        asked = {
            self._key(goal, strategy.name, rules.budget(strategy, level)): (strategy.name, level)
            for strategy in rules.strategies
            for level in range(rules.levels)
        }
        made = (each for each in self._ledger.of_goal(goal.key) if each.key in asked)
        return {asked[each.key]: each.success and each.verified for each in made}

    def recall(self, goal: Goal, trial: Trial) -> Result | None:
        if trial.strategy == CACHE:
            return None
        known = self._ledger.recall(self._key(goal, trial.strategy, trial.budget))
        if known is None:
            return None
        proved = known.success and known.verified
        what = (known.tactics, known.time_seconds, known.subgoals, known.error, known.metadata)
        result = Result(proved, trial.strategy, *what)
        self._note(Tried(trial, result, recalled=True))
        return result

    async def record(self, goal: Goal, trial: Trial, result: Result) -> None:
        if self._processes.stopping and not result.success:
            raise Stopping  # its Lean may have been ended under it: nothing is known of the goal
        if RAISED not in result.metadata:
            await asyncio.wrap_future(self._saved(goal, trial, result))
        self._note(Tried(trial, result, recalled=False))

    def _saved(self, goal: Goal, trial: Trial, result: Result) -> Future[None]:
        if trial.strategy == CACHE:
            return self._ledger.used_cached_tactics(goal.key, result.success, result.time_seconds)
        return self._ledger.record(self._attempt(goal, trial, result))

    def _note(self, tried: Tried) -> None:
        self.tried.setdefault(tried.trial.goal, []).append(tried)

    def _key(self, goal: Goal, strategy: str, budget: float) -> Key:
        return Key(goal.key, strategy, self._config(goal, strategy), self._toolchain, budget)

    def _attempt(self, goal: Goal, trial: Trial, result: Result) -> Attempt:
        return Attempt(
            key=self._key(goal, trial.strategy, trial.budget),
            goal_text=goal.text,
            success=result.success,
            time_seconds=result.time_seconds,
            timestamp=self._clock(),
            tactics=result.tactics,
            error=result.error,
            verified=result.success,
            subgoals=result.subgoals,
            metadata=result.metadata,
            run=self._run,
        )
