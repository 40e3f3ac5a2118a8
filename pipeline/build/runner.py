"""Adapter to doit: targets as its tasks, receipts as its database, a runner that schedules by rooms.

There is no database besides the receipts, so none can be lost or wrong.  Threads make the targets; the main thread
syncs what is recorded, then tells reporters of it.

States of a build:

    running  -> over      no target is left that may start
    running  -> stopping  a signal, a fault, or a failure without --continue: nothing more is started; after a signal or
                          a fault the commands that run are ended, too
    stopping -> over      all threads have left; then the fault is raised"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import Thread, local
from typing import Any

from doit.dependency import DependencyStatus
from doit.runner import FAILURE, Runner
from doit.task import Task

from pipeline.build.board import Board
from pipeline.build.make import Busy, Crowded
from pipeline.build.rehearsal import TargetStatus, target_statuses
from pipeline.build.session import BuildSession
from pipeline.core.outcome import FAILED, FRESH, IGNORED, Wait
from pipeline.core.text import join_names, target_count
from pipeline.errors import UNAVAILABLE, BuildInterrupted
from pipeline.machine.process import BuildStopping
from pipeline.store.receipts import FORGOTTEN, ReceiptLine
from pipeline.store.receipts import IGNORED as IGNORED_LINE


class TargetTask(Task):  # type: ignore[misc]
    """Task of doit's that knows its target."""

    def __init__(self, session: BuildSession, i: int) -> None:
        target = session.graph.targets[i]
        super().__init__(
            target.name,
            None,
            file_dep=target.inputs,
            targets=target.outputs,
            task_dep=[session.graph.targets[j].name for j in session.graph.above(i)],
            clean=True,
            subtask_of=target.run,
            doc=join_names(target.outputs),
        )


def doit_tasks(session: BuildSession) -> list[Task]:
    """List a group for each run, then its targets: what doit's own commands work on."""
    out: list[Task] = []
    for run, plan in session.plans.items():
        own = [t for t in session.graph.targets if t.run == run]
        doc = f"{plan.kind}, {target_count(len(own))} ({plan.spec})"
        group = Task(run, None, task_dep=[t.name for t in own], has_subtask=True, doc=doc)
        out += [group, *(TargetTask(session, session.graph.index[t.name]) for t in own)]
    return out


class ReceiptDatabase:
    """Receipts under the interface of doit.dependency.Dependency, as far as doit's commands use it."""

    def __init__(self, session: BuildSession) -> None:
        self.session = session

    def get_status(self, task: Task, tasks_dict: Any, get_log: bool = False) -> DependencyStatus:
        """Give the same status as `graph` shows: a run is stale when anything in it is."""
        status = DependencyStatus(get_log)
        targets = [task.name] if isinstance(task, TargetTask) else task.task_dep
        if any(self._statuses[self.session.graph.index[name]].status not in (FRESH, IGNORED) for name in targets):
            status.add_reason("uptodate_false", ("it is stale", [], {}))
        return status

    @cached_property
    def _statuses(self) -> dict[int, TargetStatus]:
        return target_statuses(self.session, range(len(self.session.graph.targets)))

    def status_is_ignore(self, task: Task) -> bool:
        """Check if it is left out, by itself or because of one above."""
        return isinstance(task, TargetTask) and self._statuses[self.session.graph.index[task.name]].status == IGNORED

    def ignore(self, task: Task) -> None:
        if isinstance(task, TargetTask):
            self._append(task.name, IGNORED_LINE)

    def remove(self, name: str) -> None:
        """Forget a target: its result is neither fresh nor recalled until it has been made anew."""
        if name in self.session.graph.index:
            self._append(name, FORGOTTEN)

    def remove_all(self) -> None:
        for name in self.session.graph.index:
            self.remove(name)

    def remove_success(self, task: Task) -> None:
        """Do nothing: a failure is a line of its own, and what succeeded before stays true of its inputs."""

    def get_values(self, name: str) -> dict[str, Any]:
        return {}

    def _append(self, name: str, event: str) -> None:
        self.session.maker.receipts[name.partition(":")[0]].append([ReceiptLine(name, event, {})])

    def close(self) -> None:
        self.session.sync_receipts()
        self.session.close()


# What is finished is safe from a kill at once, and from a power cut within this time.
SYNC_SECONDS = 0.05
# A signal that another thread took is handled when the main thread next wakes; what has changed is written by then.
WAKE_SECONDS = 0.5


class RoomRunner(Runner):  # type: ignore[misc]
    """Runs the stale targets of a session as their inputs get ready and their rooms have a place."""

    def __init__(self, session: BuildSession, todo: set[int], jobs: int, reporter: Any, go_on: bool) -> None:
        super().__init__(ReceiptDatabase(session), reporter, continue_=go_on)
        threads = max(1, min(jobs, len(todo)))
        self._session = session
        self._board = Board(session, todo, threads, go_on, self._start_thread)
        self.statuses = self._board.statuses
        session.maker.places = self._board
        session.maker.processes.started = self._note_process
        self._mine = local()  # of each thread: the target it makes
        # They live as long as the build, since children may be bound to the thread that started them.
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(threads)]
        self._fault: BaseException | None = None
        self._heeded = {**session.requests_before}

    def run_tasks(self, _dispatcher: Any) -> None:
        with self._stop_on_signals():
            try:
                self._start_threads()
                while not self._board.all_left.is_set():
                    self._board.has_news.wait(WAKE_SECONDS)
                    self._board.all_left.wait(SYNC_SECONDS)
                    self._steer()
                    self._catch_up()
                self._catch_up()
            except BaseException as error:  # noqa: BLE001 - raised below, once nothing runs any more
                self._stop(error)
                while not self._board.all_left.wait(WAKE_SECONDS):
                    self._board.wake()
        for thread in filter(Thread.is_alive, self._threads):
            thread.join()
        self._session.sync_receipts()
        if failed := {i for i, status in self.statuses.items() if status == FAILED}:
            self.final_result = UNAVAILABLE if failed <= self._board.outages else FAILURE
        if self._fault is not None:
            raise self._fault

    def _start_threads(self) -> None:
        first = [*self._threads]  # while they start, some may want others beside them
        for n, thread in enumerate(first):
            try:
                thread.start()
            except RuntimeError:  # more than the machine gives
                self._board.leave(len(first) - n)
                raise

    def _steer(self) -> None:
        """Heed what people asked for meanwhile, and tell of it."""
        for run, log in self._session.steering.items():
            requests = log.requests()
            for request in requests[self._heeded[run] :]:
                self.reporter.steered(run, request)
            self._heeded[run] = len(requests)
        self._board.look_again()

    def _catch_up(self) -> None:
        """Sync what was recorded, then tell of it; what waits for that may start."""
        news = self._board.news()
        if news:
            self._session.sync_receipts()
        for store in self._session.maker.stores.values():
            store.release()
        for target, outcome in news:
            if outcome is None:
                self.reporter.target_started(target)
            elif isinstance(outcome, Wait):
                self.reporter.target_waits(target, outcome)
            elif isinstance(outcome, str):
                self.reporter.target_progress(target, outcome)
            elif isinstance(outcome, int):
                self.reporter.target_process(target, outcome)
            else:
                self.reporter.target_ended(target, outcome)
        self.reporter.round_ended()
        self._board.release_told()

    def _note_process(self, pid: int) -> None:
        """Tell of a command that the target of this thread has started."""
        if (target := getattr(self._mine, "target", None)) is not None:
            self._board.note_process(target, pid)

    def _start_thread(self) -> None:
        """Start one more thread, for a place that was lent.  Raises RuntimeError where the machine gives none."""
        thread = Thread(target=self._work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        """Work of each thread: make targets until there are none."""
        try:
            while (i := self._board.take()) is not None:
                self._make(i)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            self._stop(error)
        finally:
            self._board.leave()

    def _make(self, i: int) -> None:
        target = self._mine.target = self._session.graph.targets[i]
        maker = self._session.maker
        try:
            outcome = maker.make(target)
            maker.with_room(target, lambda: self._board.hand_in(i, outcome))
        except Busy as busy:
            self._board.note_busy(i, busy.key)
            return
        except Crowded:
            self._board.note_crowded(i)
            return
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            if not isinstance(error, BuildStopping):
                self._stop(error)
            self._board.give_up(i)
            return
        if outcome.fault is not None:
            self._stop(outcome.fault)

    def _stop(self, fault: BaseException) -> None:
        """Start nothing more and end what runs; the fault is raised once all is quiet."""
        self._board.stopping = True
        if self._fault is None:
            self._fault = fault
            self.reporter.stopping(str(fault))
            self._session.maker.processes.stop()

    @contextmanager
    def _stop_on_signals(self) -> Iterator[None]:
        """Stop on SIGINT, SIGTERM and SIGHUP: commands are ended; what is finished by then is recorded."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        heeded = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]  # nohup, a background job
        before = {n: signal.signal(n, lambda number, _: self._stop(BuildInterrupted(number))) for n in heeded}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def finish(self) -> int:
        self.reporter.complete_run()
        return int(self.final_result)
