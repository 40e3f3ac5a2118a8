"""Run a proof search: start trials, cancel them, report outcomes to the schedule.

One coroutine asks and tells, so that the journal has one order. An attempt's clock runs from when it is started,
which is when there is a process for it. However a search ends (all goals done, deadline, stop, a fault), what has
finished is recorded, and what runs is cancelled and has ended.

The event loop is the engine's own, within the thread of whoever asks for the search."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.goals.bank import Goal, theorem_of
from pipeline.lean.model import Lean
from pipeline.machine.process import Processes
from pipeline.machine.usage import load_per_cpu
from pipeline.proof.run.attempt import (
    PATIENCE,
    Attempts,
    AttemptStore,
    Check,
    CheckResult,
    FinishedAttempt,
    Worker,
    WorkerTimeouts,
    make_attempt,
    run_in_thread,
    trial_outcome,
)
from pipeline.proof.schedule.policy import ScheduleJournal
from pipeline.proof.schedule.records import (
    CACHE,
    CANCELLED,
    EXHAUSTED,
    SOLVED,
    GoalOutcome,
    ScheduleRules,
    Trial,
    TrialOutcome,
    WorkerResult,
)
from pipeline.store.ledger import Ledger


class SearchProgress(NamedTuple):
    """`outcome` is what just came of `trial`; so many goals are solved, and so many have ended in all."""

    trial: Trial
    outcome: TrialOutcome
    recalled: bool
    solved: int
    ended: int


@dataclass(frozen=True)
class SearchMeans:
    """Means of a search: what it works with.

    workers: by strategy; `cache` among them when goals are added with something cached
    check: why a proof does not hold, or nothing
    processes: how many trials may run at once, whatever rooms say
    load: of the machine, per CPU"""

    workers: Mapping[str, Worker]
    check: Check
    attempts: Attempts
    processes: int
    load: Callable[[], float] | None = None
    on_progress: Callable[[SearchProgress], None] = lambda _: None
    patience: WorkerTimeouts = PATIENCE


async def run_trials(
    journalled: ScheduleJournal,
    goals: Iterable[Goal],
    means: SearchMeans,
    deadline: float | None = None,
    stop: asyncio.Event | None = None,
) -> list[GoalOutcome]:
    """To the end: all goals solved or exhausted, `deadline` seconds over, `stop` set, or this task cancelled.

    However it ends, what has finished is recorded, what runs is cancelled, and has ended."""
    search = _Driver(journalled, {goal.id: goal for goal in goals}, means)
    if deadline is not None:
        search.halt_after(lambda: asyncio.sleep(deadline), "timeout")
    if stop is not None:
        search.halt_after(stop.wait, "stopped")
    try:
        await search.conduct()
    finally:
        for watcher in search.watchers:
            watcher.cancel()
    return journalled.policy.outcomes()


class _Driver:
    def __init__(self, journalled: ScheduleJournal, goals: Mapping[str, Goal], means: SearchMeans) -> None:
        self.journalled = journalled
        self.goals = goals
        self.means = means
        self.running: dict[asyncio.Task[TrialOutcome], Trial] = {}
        self.watchers: set[asyncio.Task[None]] = set()
        self.door = asyncio.Lock()

    def halt_after(self, event: Callable[[], Awaitable[object]], why: str) -> None:
        async def watch() -> None:
            await event()
            self.halt(why)

        self.watchers.add(asyncio.create_task(watch()))

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
            goal = self.goals[trial.goal]
            if known := self.means.attempts.recall(goal, trial):
                self._tell(trial, trial_outcome(trial, known), recalled=True)
            else:
                self.running[asyncio.create_task(self._attempt(goal, trial))] = trial

    async def _attempt(self, goal: Goal, trial: Trial) -> TrialOutcome:
        """Each in its turn waits for the machine to be less busy; what runs is not held up."""
        means = self.means
        if means.load:
            async with self.door:
                await asyncio.sleep(self.journalled.load(means.load()))
        return await make_attempt(
            goal, trial, means.workers[trial.strategy], means.check, means.attempts, means.patience
        )

    async def _hear(self) -> None:
        """Tell the schedule of all that has ended, in the order of trials."""
        await asyncio.wait({*self.running, *self.watchers}, return_when=asyncio.FIRST_COMPLETED)
        for watcher in [each for each in self.watchers if each.done()]:
            self.watchers.remove(watcher)
            watcher.result()
        for task in self._ended():
            outcome = _cancelled(self.running[task]) if task.cancelled() else task.result()
            self._tell(self.running.pop(task), outcome)

    def _ended(self) -> list[asyncio.Task[TrialOutcome]]:
        return sorted((task for task in self.running if task.done()), key=lambda task: self.running[task].number)

    def _tell(self, trial: Trial, outcome: TrialOutcome, recalled: bool = False) -> None:
        self._cancel(self.journalled.tell(outcome))
        counts = self.journalled.policy.counts
        solved = counts[SOLVED]
        self.means.on_progress(SearchProgress(trial, outcome, recalled, solved, solved + counts[EXHAUSTED]))

    def _cancel(self, numbers: Iterable[int]) -> None:
        """Once: a task that is cancelled again would not wait for what it is ending."""
        wanted = {*numbers}
        for task, trial in self.running.items():
            if trial.number in wanted and not task.cancelling():
                task.cancel()

    def halt(self, why: str) -> None:
        if not self.journalled.policy.stopped:
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


def _cancelled(trial: Trial) -> TrialOutcome:
    return TrialOutcome(trial.number, CANCELLED)


@dataclass(frozen=True)
class SearchSite:
    """Where a search happens: the Lean it asks, how many of its processes, where attempts are kept, who starts them."""

    lean: Lean
    processes: int
    ledger: Ledger
    starter: Processes
    run: str


@dataclass(frozen=True)
class SearchTask:
    """Goals to search, and the rules.  `config`: what of a strategy decides its attempts at a goal, in a word.

    `deadline`: seconds for all of it."""

    goals: Sequence[Goal]
    rules: ScheduleRules
    workers: Mapping[str, Worker]
    config: Callable[[Goal, str], str]
    use_cache: bool
    deadline: float | None


@dataclass(frozen=True)
class SearchResult:
    """The outcome of each goal, and the attempts that were made at it.  `stopped`: why before the end, if so."""

    outcomes: Sequence[GoalOutcome]
    attempts: Mapping[str, Sequence[FinishedAttempt]]
    stopped: str


def search_goals(
    site: SearchSite,
    task: SearchTask,
    journal: Callable[[str], object],
    say: Callable[[SearchProgress], None],
    clock: Callable[[], float] = time.monotonic,
) -> SearchResult:
    site.ledger.add_goals(task.goals).result()
    attempts = AttemptStore(site.ledger, site.starter, task.config, site.lean.version, site.run)
    journalled = ScheduleJournal(task.rules, journal)
    for goal in task.goals:
        known = attempts.earlier_attempts(goal, task.rules)
        # a proof of this very search is recalled with what it took; the cache would only do it again
        cached = site.ledger.get_cached_tactics(goal.key) if task.use_cache and not any(known.values()) else None
        journalled.add(goal, cached.success_rate if cached else None, known)
    means = SearchMeans(
        workers={**task.workers, CACHE: _cache_worker(site.ledger)},
        check=_lean_check(site.lean, clock),
        attempts=attempts,
        processes=site.processes,
        load=None if task.rules.cpu_target is None else load_per_cpu,
        on_progress=say,
    )

    async def run_until_stopped() -> list[GoalOutcome]:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        with site.starter.wake_on_stop(lambda: loop.call_soon_threadsafe(stop.set)):
            return await run_trials(journalled, task.goals, means, task.deadline, stop)

    return SearchResult(asyncio.run(run_until_stopped()), attempts.by_goal, journalled.policy.stopped)


def _cache_worker(ledger: Ledger) -> Worker:
    async def run_cache(goal: Goal, _timeout: float) -> WorkerResult:
        """Find what proved the goal before; the check says if it still does."""
        cached = ledger.get_cached_tactics(goal.key)
        assert cached is not None
        return WorkerResult(True, CACHE, cached.tactics)

    return run_cache


def _lean_check(lean: Lean, clock: Callable[[], float]) -> Check:
    async def check(goal: Goal, result: WorkerResult) -> CheckResult:
        stop, begun = threading.Event(), list[float]()

        def timed() -> CheckResult:
            wrong = lean.check(theorem_of(goal), result.tactics, stop, lambda: begun.append(clock()))
            return CheckResult(str(wrong or ""), clock() - begun[-1] if begun else 0.0)

        return await run_in_thread(timed, stop.set)

    return check
