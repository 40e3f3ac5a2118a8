"""One attempt: the worker's answer, or what became of it, checked and kept before anything is decided on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from time import monotonic
from traceback import format_exception
from typing import Any, NamedTuple, Protocol, TypeVar

from pipeline.edge.lean.model import LeanKilled, LeanStartError, NotElaborated
from pipeline.edge.process import Stopping
from pipeline.errors import SpecError
from pipeline.goals.model import Goal
from pipeline.proof.model import RAISED, Result
from pipeline.proof.trials import CACHE, FAILED, PROVED, Outcome, Trial

# Raised by a worker, these are no attempt's fault: there is no Lean or it is killed, nothing may start, memory is out.
FAULTS = (LeanStartError, LeanKilled, Stopping, SpecError, MemoryError)

Worker = Callable[[Goal, float], Coroutine[Any, Any, Result]]
Check = Callable[[Goal, Result], Coroutine[Any, Any, "Checked"]]
T = TypeVar("T")


class Checked(NamedTuple):
    """Why a proof does not hold, or nothing; and what the check of it took, once a Lean stood ready."""

    why: str = ""
    seconds: float = 0.0


class Patience(NamedTuple):
    """Seconds that a worker may overrun its budget before it is cancelled, and that it then has to end.

    A worker's clock runs when its goal stands in a Lean, whose process may have to start first; were it cancelled
    sooner, that would be kept as a failure at a goal that nobody looked at."""

    slack: float = 660.0
    grace: float = 10.0


PATIENCE = Patience()


class Attempts(Protocol):
    """Where finished attempts are kept."""

    def recall(self, goal: Goal, trial: Trial) -> Result | None:
        """Of the same attempt made before.  A success among them was verified."""

    async def record(self, goal: Goal, trial: Trial, result: Result) -> None:
        """Returns once it is safe.  Success means verified."""


class Stuck(Exception):
    """A worker goes on after it was cancelled."""


async def attempt(
    goal: Goal, trial: Trial, worker: Worker, check: Check, attempts: Attempts, patience: Patience
) -> Outcome:
    result = in_time(await answer(goal, trial, worker, patience), trial.budget)
    if result.success:
        result = await _verified(goal, trial, result, check, patience)
    await _whatever_happens(attempts.record(goal, trial, result))
    return outcome(trial, result)


def in_time(result: Result, budget: float) -> Result:
    """A proof that was found when its budget was over is none, whoever found it: by the worker's own clock."""
    if not result.success or result.time_seconds <= budget:
        return result
    why = f"timeout: found after {result.time_seconds:.3g} s, of {budget:g}"
    return replace(result, success=False, error=why)


async def _verified(goal: Goal, trial: Trial, found: Result, check: Check, patience: Patience) -> Result:
    """A proof that does not hold is none.  To check it again is all that one from the cache costs."""
    checked = await _ending(check(goal, found), trial, patience.grace)
    if trial.strategy == CACHE:
        found = replace(found, time_seconds=found.time_seconds + checked.seconds)
    return replace(found, success=False, error=f"not verified: {checked.why}") if checked.why else found


def outcome(trial: Trial, result: Result) -> Outcome:
    return Outcome(trial.number, PROVED if result.success else FAILED, round(result.time_seconds, 6), result.error)


async def answer(goal: Goal, trial: Trial, worker: Worker, patience: Patience) -> Result:
    """Whatever the worker does, the attempt has a result; FAULTS and a worker that cannot be ended are raised."""
    begun = monotonic()
    limit = asyncio.timeout(trial.budget + patience.slack)  # not wait_for: that of Python 3.11 loses Stuck
    try:
        async with limit:
            return await _ending(worker(goal, trial.budget), trial, patience.grace)
    except Stuck:
        raise
    except Exception as error:  # a worker may be anybody's: what it raises is what came of the attempt
        if is_fault(error):
            raise
        if limit.expired() and isinstance(error, TimeoutError):  # ours, not one that the worker raised
            what, seen = f"timeout: cancelled {patience.slack:g} s after its {trial.budget:g} s", {}
        else:
            what = f"{type(error).__name__}: {error}"
            seen = {RAISED: type(error).__name__, "traceback": "".join(format_exception(error))}
        return Result(False, trial.strategy, time_seconds=monotonic() - begun, error=what, metadata=seen)


def is_fault(error: BaseException) -> bool:
    """A statement that does not elaborate is one goal's trouble, though no Lean starts on it."""
    return isinstance(error, FAULTS) and not isinstance(error, NotElaborated)


async def _ending(work: Coroutine[Any, Any, T], trial: Trial, grace: float) -> T:
    """The work; cancelled, it has to end in time."""
    task, us = asyncio.ensure_future(work), asyncio.current_task()
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not us or not us.cancelling():
            raise RuntimeError("it was cancelled, by nobody but itself") from None
        task.cancel()
        await asyncio.wait({task}, timeout=grace)
        if not task.done():
            raise Stuck(f"{trial.strategy} on {trial.goal} goes on {grace:g} s after it was cancelled") from None
        if not task.cancelled() and (error := task.exception()) and is_fault(error):
            raise error from None
        raise


async def _whatever_happens(work: Coroutine[Any, Any, None]) -> None:
    """An attempt that has ended is kept, even if it is cancelled just then."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
