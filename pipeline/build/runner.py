"""doit's runner with rooms instead of `-n` slots: targets run in threads, everything is recorded in one."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from doit.exceptions import TaskFailed, UnmetDependency
from doit.runner import FAILURE, Runner

from pipeline.build.session import Session
from pipeline.build.tasks import Records, TargetTask, task
from pipeline.core.outcome import FAILED, FRESH, Outcome
from pipeline.core.rooms import room_of, rooms
from pipeline.core.schedule import Blocked, Schedule
from pipeline.edge.process import Stopping
from pipeline.edge.receipts import FAILED as FAILED_LINE
from pipeline.edge.receipts import Line, done

# What is finished is safe from a kill at once, and from a power cut within this time.
SYNC_SECONDS = 0.05


class Interrupted(Exception):
    """A signal asked the build to stop; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number


class Todo(NamedTuple):
    """What doit's runner asks of a dispatcher, before our own loop takes over."""

    tasks: dict[str, Any]
    selected_tasks: list[str]


Ended = tuple[int, Outcome | BaseException]


class Threads:
    """Threads that make targets; they live as long as the build, since children may be bound to their parent thread."""

    def __init__(self, session: Session, size: int) -> None:
        self._todo: SimpleQueue[int | None] = SimpleQueue()
        self.ended: SimpleQueue[Ended] = SimpleQueue()
        self._session = session
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(size)]
        for thread in self._threads:
            thread.start()

    def start(self, i: int) -> None:
        self._todo.put(i)

    def finish(self) -> None:
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        make, targets = self._session.maker.make, self._session.graph.targets
        while (i := self._todo.get()) is not None:
            try:
                self.ended.put((i, make(targets[i])))
            except BaseException as error:  # noqa: BLE001 - carried to the main thread, which raises it there
                self.ended.put((i, error))


class RoomRunner(Runner):  # type: ignore[misc]
    """Runs the stale targets of a session as their inputs get ready and their rooms have a place."""

    def __init__(self, session: Session, todo: set[int], jobs: int, reporter: Any, go_on: bool) -> None:
        super().__init__(Records(session), reporter, continue_=go_on)
        self._stop_running: bool = False
        self.session, self.todo, self.jobs = session, todo, jobs
        self.ended: dict[int, Outcome] = {}
        self.tasks: dict[int, TargetTask] = {}
        self.fault: BaseException | None = None
        self.running = 0
        self.unsynced: list[int] = []
        self.blocked: list[Blocked] = []  # by what is not reported yet
        self.sync_due = 0.0

    def run_tasks(self, _dispatcher: Todo) -> None:
        schedule = self._schedule()
        threads = Threads(self.session, max(1, min(self.jobs, len(self.todo))))
        with self._signals():
            try:
                self._loop(schedule, threads)
            except BaseException as error:  # noqa: BLE001 - raised below, once nothing runs any more
                self._stop(error)
            self._drain(threads)
        if self.fault is not None:
            raise self.fault

    def _loop(self, schedule: Schedule, threads: Threads) -> None:
        while (started := self._start(schedule, threads)) or self.running:
            self.running += started
            batch = self._taken(threads)
            self.running -= len(batch)
            self._record(batch, schedule)
        self._sync()

    def _drain(self, threads: Threads) -> None:
        """After a fault: what still ends is recorded all the same; then all threads are gone."""
        threads.finish()
        while not threads.ended.empty():
            i, ended = threads.ended.get()
            if isinstance(ended, Outcome):
                target = self.session.graph.targets[i]
                self.session.maker.receipts[target.run].append(_lines(target.name, ended))
                self.ended[i] = ended
        for receipts in self.session.maker.receipts.values():
            receipts.sync()

    def _schedule(self) -> Schedule:
        graph = self.session.graph
        room = {i: named for i in self.todo if (named := room_of(graph.targets[i]))}
        return Schedule({i: graph.above(i) for i in sorted(self.todo)}, room, rooms(self.session.plans.values()))

    def _taken(self, threads: Threads) -> list[Ended]:
        """All that has ended; waits for one, but no longer than the next sync is due."""
        batch: list[Ended] = []
        try:
            batch.append(threads.ended.get(timeout=self._patience()))
            while True:
                batch.append(threads.ended.get_nowait())
        except Empty:
            return batch

    def _patience(self) -> float:
        """Not for ever: a signal that another thread took is handled when the main thread next wakes."""
        return max(0.0, min(self.sync_due - time.monotonic(), 1.0)) if self.unsynced else 1.0

    def _start(self, schedule: Schedule, threads: Threads) -> int:
        """Start what may start; how many that were."""
        started = 0
        while self.running + started < self.jobs and not self._stop_running and (i := schedule.start()) is not None:
            todo = self.tasks[i] = TargetTask(self.session.graph.targets[i], ())
            if self.dep_manager.status_is_ignore(todo):
                self.tasks.pop(i)
                self.reporter.skip_ignore(todo)
                schedule.leave(i)
                self._skip(schedule.ended(i, ok=False), ignored=True)
                continue
            self.reporter.execute_task(todo)
            threads.start(i)
            started += 1
        return started

    def _record(self, batch: Iterable[Ended], schedule: Schedule) -> None:
        """Write the receipts, then build upon them; many share a sync, and are reported after it."""
        for i, ended in batch:
            schedule.leave(i)
            if isinstance(ended, BaseException):
                self._stop(None if isinstance(ended, Stopping) else ended)
                continue
            target = self.session.graph.targets[i]
            self.session.maker.receipts[target.run].append(_lines(target.name, ended))
            self._ended(i, ended)
            if ended.fault is not None:
                self._stop(ended.fault)
            self.blocked += schedule.ended(i, ended.status != FAILED)
        if self.unsynced and time.monotonic() >= self.sync_due:
            self._sync()

    def _ended(self, i: int, outcome: Outcome) -> None:
        self.ended[i] = outcome
        if outcome.status == FAILED:
            self.final_result = FAILURE
            self._stop_running = self._stop_running or not self.continue_
        if not self.unsynced:
            self.sync_due = time.monotonic() + SYNC_SECONDS
        self.unsynced.append(i)

    def _sync(self) -> None:
        for receipts in self.session.maker.receipts.values():
            receipts.sync()
        for i in self.unsynced:
            self._report(self.tasks.pop(i), self.ended[i])
        self.unsynced.clear()
        self._skip(self.blocked)
        self.blocked.clear()

    def _report(self, ended: TargetTask, outcome: Outcome) -> None:
        ended.outcome = outcome
        if outcome.status == FAILED:
            self.reporter.add_failure(ended, TaskFailed(outcome.why))
        elif outcome.status == FRESH:
            self.reporter.skip_uptodate(ended)
        else:
            self.reporter.add_success(ended)

    def _skip(self, blocked: Iterable[Blocked], ignored: bool = False) -> None:
        """What cannot run because of what is above it."""
        for i, by in blocked:
            skipped = task(self.session, i)
            if ignored:
                self.reporter.skip_ignore(skipped)
            elif self.continue_:
                names = " ".join(self.session.graph.targets[j].name for j in by)
                self.reporter.add_failure(skipped, UnmetDependency(names))

    def _stop(self, fault: BaseException | None) -> None:
        """Start nothing more and end what runs; a fault is raised once all is quiet."""
        self._stop_running = True
        if fault is not None and self.fault is None:
            self.fault = fault
            self.reporter.stopping(str(fault))
            self.session.maker.processes.stop()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the commands that run; what is finished by then is recorded."""

        def interrupted(number: int, _frame: object) -> None:
            self._stop(Interrupted(number))

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        heeded = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]  # nohup, a background job
        before = {n: signal.signal(n, interrupted) for n in heeded}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def finish(self) -> int:
        self.reporter.complete_run()
        return int(self.final_result)


def _lines(name: str, outcome: Outcome) -> Iterator[Line]:
    if outcome.receipt is not None:
        yield done(name, outcome.receipt)
    elif outcome.status == FAILED:
        fields = {
            "why": outcome.why, "exit": outcome.exit, "attempts": outcome.attempts,
            "start": round(outcome.start, 3), "end": round(outcome.end, 3), "log": outcome.log,
        }  # fmt: skip
        yield Line(name, FAILED_LINE, fields)
