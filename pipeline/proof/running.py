"""Does what the schedule says: starts trials, cancels them, tells it how they end.

One coroutine asks and tells, so that the journal has one order.  An attempt's clock runs from when it is started, which
is when there is a process for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.goals.model import Goal
from pipeline.proof.attempting import PATIENCE, Attempts, Check, Patience, Worker, attempt, outcome
from pipeline.proof.journal import Journalled
from pipeline.proof.trials import CANCELLED, EXHAUSTED, FRONTIER, SOLVED, Outcome, Standing, Trial


class Progress(NamedTuple):
    """`outcome` is what just came of `trial`; goals by how they stand, and trials that run."""

    trial: Trial
    outcome: Outcome
    recalled: bool
    solved: int
    exhausted: int
    frontier: int
    running: int


@dataclass(frozen=True)
class Means:
    """What a search does its work with.

    workers: by strategy; `cache` among them when goals are added with something cached
    check: why a proof does not hold, or nothing
    processes: how many trials may run at once, whatever rooms say
    load: of the machine, per CPU"""

    workers: Mapping[str, Worker]
    check: Check
    attempts: Attempts
    processes: int
    load: Callable[[], float] | None = None
    on_progress: Callable[[Progress], None] = lambda _: None
    patience: Patience = PATIENCE


async def run(
    journalled: Journalled,
    goals: Iterable[Goal],
    means: Means,
    deadline: float | None = None,
    stop: asyncio.Event | None = None,
) -> list[Standing]:
    """To the end: all goals solved or exhausted, `deadline` seconds over, `stop` set, or this task cancelled.

    However it ends, what has finished is recorded, what runs is cancelled, and has ended."""
    search = _Search(journalled, {goal.id: goal for goal in goals}, means)
    search.watchers = {asyncio.create_task(each) for each in _watchers(search, deadline, stop)}
    try:
        await search.conduct()
    finally:
        for watcher in search.watchers:
            watcher.cancel()
    return journalled.schedule.standings()


def _watchers(
    search: _Search, deadline: float | None, stop: asyncio.Event | None
) -> Iterable[Coroutine[Any, Any, None]]:
    if deadline is not None:
        yield _then(lambda: asyncio.sleep(deadline), lambda: search.halt("timeout"))
    if stop is not None:
        yield _then(stop.wait, lambda: search.halt("stopped"))


async def _then(event: Callable[[], Awaitable[object]], act: Callable[[], None]) -> None:
    await event()
    act()


class _Search:
    def __init__(self, journalled: Journalled, goals: Mapping[str, Goal], means: Means) -> None:
        self.journalled = journalled
        self.goals = goals
        self.means = means
        self.running: dict[asyncio.Task[Outcome], Trial] = {}
        self.watchers: set[asyncio.Task[None]] = set()
        self.door = asyncio.Lock()

    async def conduct(self) -> None:
        try:
            self._start_what_may()
            while self.running:
                await self._hear()
                self._start_what_may()
        except BaseException as error:
            self.halt("interrupted" if isinstance(error, asyncio.CancelledError) else f"fault: {error}")
            await self._wind_down(error)
            raise

    def _start_what_may(self) -> None:
        while trial := self.journalled.ask(self.means.processes - len(self.running)):
            self._start(trial)

    def _start(self, trial: Trial) -> None:
        goal = self.goals[trial.goal]
        if known := self.means.attempts.recall(goal, trial):
            self._tell(trial, outcome(trial, known), recalled=True)
        else:
            self.running[asyncio.create_task(self._attempt(goal, trial))] = trial

    async def _attempt(self, goal: Goal, trial: Trial) -> Outcome:
        """Each in its turn waits for the machine to be less busy; what runs is not held up."""
        if self.means.load:
            async with self.door:
                await asyncio.sleep(self.journalled.load(self.means.load()))
        means = self.means
        return await attempt(goal, trial, means.workers[trial.strategy], means.check, means.attempts, means.patience)

    async def _hear(self) -> None:
        """What has ended is told in the order of trials."""
        await asyncio.wait({*self.running, *self.watchers}, return_when=asyncio.FIRST_COMPLETED)
        for watcher in [each for each in self.watchers if each.done()]:
            self.watchers.remove(watcher)
            watcher.result()
        for task in self._ended():
            ended = _cancelled(self.running[task]) if task.cancelled() else task.result()
            self._tell(self.running.pop(task), ended)

    def _ended(self) -> list[asyncio.Task[Outcome]]:
        return sorted((task for task in self.running if task.done()), key=lambda task: self.running[task].number)

    def _tell(self, trial: Trial, ended: Outcome, recalled: bool = False) -> None:
        self._cancel(self.journalled.tell(ended))
        counts = self.journalled.schedule.counts
        numbers = (counts[SOLVED], counts[EXHAUSTED], counts[FRONTIER], len(self.running))
        self.means.on_progress(Progress(trial, ended, recalled, *numbers))

    def _cancel(self, numbers: Iterable[int]) -> None:
        """Once: a task that is cancelled again would not wait for what it is ending."""
        wanted = {*numbers}
        for task, trial in self.running.items():
            if trial.number in wanted and not task.cancelling():
                task.cancel()

    def halt(self, why: str) -> None:
        if not self.journalled.schedule.stopped:
            self._cancel(self.journalled.stop(why))

    async def _wind_down(self, error: BaseException) -> None:
        """Tell what ended meanwhile; a further fault is noted on the one that is raised."""
        self._cancel(trial.number for trial in self.running.values())
        while self.running:
            await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
            for task in self._ended():
                trial = self.running.pop(task)
                fault = None if task.cancelled() else task.exception()
                if fault and fault is not error:
                    error.add_note(f"and {trial.strategy} on {trial.goal}: {type(fault).__name__}: {fault}")
                self._tell(trial, _cancelled(trial) if task.cancelled() or fault else task.result())


def _cancelled(trial: Trial) -> Outcome:
    return Outcome(trial.number, CANCELLED)
