"""Run, check and record one attempt.

An attempt that is in the ledger is recalled and not made again. Whatever a worker raises is what became of the
attempt; only FAULTS (no Lean, nothing may start, no memory) and a worker that cannot be ended are raised. A failure
while the build is being stopped is not recorded: its Lean may have been ended under it.

Blocking work runs in a thread and is awaited and cancelled like a coroutine: `stop` makes it end, and the cancellation
goes on once it has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from traceback import format_exception
from typing import Any, NamedTuple, Protocol, TypeVar

from pipeline.errors import SpecError
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Goal
from pipeline.lean.model import LeanKilled, LeanStartError, NotElaborated
from pipeline.machine.process import BuildStopping, Processes
from pipeline.proof.schedule.records import (
    CACHE,
    FAILED,
    PROVED,
    RAISED,
    ScheduleRules,
    Trial,
    TrialOutcome,
    WorkerResult,
)
from pipeline.store.ledger import Ledger

T = TypeVar("T")

# Far more than processes ever run at once: no work waits for a thread.
_threads = ThreadPoolExecutor(max_workers=256, thread_name_prefix="attempt")


async def run_in_thread(work: Callable[[], T], stop: Callable[[], object]) -> T:
    """`stop` makes `work` end soon, say by killing the process that it talks to.  It is called when this is cancelled,
    and the cancellation goes on once `work` has ended: what it used is free then."""
    inside = asyncio.get_running_loop().run_in_executor(_threads, work)
    try:
        return await asyncio.shield(inside)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait({inside})
        inside.exception()  # looked at, so that asyncio does not report it as forgotten
        raise


# Raised by a worker, these are no attempt's fault: there is no Lean or it is killed, nothing may start, memory is out.
FAULTS = (LeanStartError, LeanKilled, BuildStopping, SpecError, MemoryError)

Worker = Callable[[Goal, float], Coroutine[Any, Any, WorkerResult]]
Check = Callable[[Goal, WorkerResult], Coroutine[Any, Any, "CheckResult"]]


class CheckResult(NamedTuple):
    """Result of a check: why the proof does not hold, or nothing; and its seconds, once a Lean stood ready."""

    why: str = ""
    seconds: float = 0.0


class WorkerTimeouts(NamedTuple):
    """Seconds that a worker may overrun its budget before it is cancelled, and that it then has to end.

    A worker's clock runs when its goal stands in a Lean, whose process may have to start first; were it cancelled
    sooner, a failure would be recorded at a goal that no Lean has seen."""

    slack: float = 660.0
    grace: float = 10.0


PATIENCE = WorkerTimeouts()


class Attempts(Protocol):
    """Store of finished attempts."""

    def recall(self, goal: Goal, trial: Trial) -> WorkerResult | None:
        """Recall the same attempt made before.  A success among them was verified."""

    async def record(self, goal: Goal, trial: Trial, result: WorkerResult) -> None:
        """Returns once it is safe.  Success means verified."""


class WorkerStuck(Exception):
    """A worker goes on after it was cancelled."""


# An attempt:  asked -> answered   by its worker; what that raised is a failed answer, too
#              asked -> raised     one of FAULTS: nothing is recorded
#              asked -> cancelled  it ends within WorkerTimeouts.grace, or WorkerStuck is raised
#              answered -> failed  without a proof, or with one that came too late
#              answered -> checked -> proved | failed
#              proved | failed -> recorded, even if it is cancelled just then
async def make_attempt(
    goal: Goal, trial: Trial, worker: Worker, check: Check, attempts: Attempts, patience: WorkerTimeouts
) -> TrialOutcome:
    result = await ask_worker(goal, trial, worker, patience)
    if result.success and result.time_seconds > trial.budget:  # by the worker's own clock
        why = f"timeout: found after {result.time_seconds:.3g} s, of {trial.budget:g}"
        result = replace(result, success=False, error=why)
    if result.success:
        checked = await _await_end(check(goal, result), trial, patience.grace)
        if trial.strategy == CACHE:  # a proof from there costs no more than its check
            result = replace(result, time_seconds=result.time_seconds + checked.seconds)
        if checked.why:
            result = replace(result, success=False, error=f"not verified: {checked.why}")
    await _finish_even_if_cancelled(attempts.record(goal, trial, result))
    return trial_outcome(trial, result)


def trial_outcome(trial: Trial, result: WorkerResult) -> TrialOutcome:
    return TrialOutcome(trial.number, PROVED if result.success else FAILED, round(result.time_seconds, 6), result.error)


async def ask_worker(goal: Goal, trial: Trial, worker: Worker, patience: WorkerTimeouts) -> WorkerResult:
    """Ask the worker: there is a result in any case, but FAULTS and a worker that cannot be ended are raised."""
    begun = monotonic()
    limit = asyncio.timeout(trial.budget + patience.slack)  # not wait_for: that of Python 3.11 loses Stuck
    try:
        async with limit:
            return await _await_end(worker(goal, trial.budget), trial, patience.grace)
    except WorkerStuck:
        raise
    except Exception as error:  # of any worker: its exception is the result of the attempt
        if is_fault(error):
            raise
        if limit.expired() and isinstance(error, TimeoutError):  # ours, not one that the worker raised
            what, seen = f"timeout: cancelled {patience.slack:g} s after its {trial.budget:g} s", {}
        else:
            what = f"{type(error).__name__}: {error}"
            seen = {RAISED: type(error).__name__, "traceback": "".join(format_exception(error))}
        return WorkerResult(False, trial.strategy, time_seconds=monotonic() - begun, error=what, metadata=seen)


def is_fault(error: BaseException) -> bool:
    """True for FAULTS, except for a statement that does not elaborate: that is the fault of one goal."""
    return isinstance(error, FAULTS) and not isinstance(error, NotElaborated)


async def _await_end(work: Coroutine[Any, Any, T], trial: Trial, grace: float) -> T:
    """Await the work; once cancelled, it has to end in time."""
    task, us = asyncio.ensure_future(work), asyncio.current_task()
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not us or not us.cancelling():
            raise RuntimeError("it was cancelled, by nobody but itself") from None
        task.cancel()
        await asyncio.wait({task}, timeout=grace)
        if not task.done():
            raise WorkerStuck(f"{trial.strategy} on {trial.goal} goes on {grace:g} s after it was cancelled") from None
        if not task.cancelled() and (error := task.exception()) and is_fault(error):
            raise error from None
        raise


async def _finish_even_if_cancelled(work: Coroutine[Any, Any, None]) -> None:
    """Finish the work even if the attempt is cancelled just then."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task


class FinishedAttempt(NamedTuple):
    """An attempt that has ended.  `recalled`: some time ago."""

    trial: Trial
    result: WorkerResult
    recalled: bool


class AttemptStore:
    """`config`: what of a strategy decides an attempt at a goal, besides its budget and the toolchain."""

    def __init__(
        self, ledger: Ledger, processes: Processes, config: Callable[[Goal, str], str], toolchain: str, run: str
    ) -> None:
        self.by_goal: dict[str, list[FinishedAttempt]] = {}  # in the order they ended
        self._ledger, self._processes, self._config = ledger, processes, config
        self._toolchain, self._run = toolchain, run

    def earlier_attempts(self, goal: Goal, rules: ScheduleRules) -> dict[tuple[str, int], bool]:
        """Attempts of such a search that were made before, by strategy and level, in that order; is it a proof?"""
        asked = {
            self._key(goal, strategy.name, rules.budget(strategy, level)): (strategy.name, level)
            for strategy in rules.strategies
            for level in range(rules.levels)
        }
        made = (each for each in self._ledger.attempts_on_goal(goal.key) if each.key in asked)
        return {asked[each.key]: each.success and each.verified for each in made}

    def recall(self, goal: Goal, trial: Trial) -> WorkerResult | None:
        known = trial.strategy != CACHE and self._ledger.recall(self._key(goal, trial.strategy, trial.budget))
        if not known:
            return None
        what = (known.tactics, known.time_seconds, known.subgoals, known.error, known.metadata)
        result = WorkerResult(known.success and known.verified, trial.strategy, *what)
        self._note(FinishedAttempt(trial, result, recalled=True))
        return result

    async def record(self, goal: Goal, trial: Trial, result: WorkerResult) -> None:
        if self._processes.stopping and not result.success:
            raise BuildStopping  # its Lean may have been ended under it: nothing is known of the goal
        if RAISED not in result.metadata:
            await asyncio.wrap_future(self._save(goal, trial, result))
        self._note(FinishedAttempt(trial, result, recalled=False))

    def _note(self, tried: FinishedAttempt) -> None:
        self.by_goal.setdefault(tried.trial.goal, []).append(tried)

    def _key(self, goal: Goal, strategy: str, budget: float) -> AttemptKey:
        return AttemptKey(goal.key, strategy, self._config(goal, strategy), self._toolchain, budget)

    def _save(self, goal: Goal, trial: Trial, result: WorkerResult) -> Future[None]:
        if trial.strategy == CACHE:
            return self._ledger.used_cached_tactics(goal.key, result.success, result.time_seconds)
        attempt = Attempt(
            key=self._key(goal, trial.strategy, trial.budget),
            goal_text=goal.text,
            success=result.success,
            time_seconds=result.time_seconds,
            timestamp=time.time(),
            tactics=result.tactics,
            error=result.error,
            verified=result.success,
            subgoals=result.subgoals,
            metadata=result.metadata,
            run=self._run,
        )
        return self._ledger.record(attempt)
