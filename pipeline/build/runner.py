"""doit's runner with rooms instead of `-n` slots: threads make the targets, the main thread syncs and tells."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple

from doit.runner import FAILURE, Runner

from pipeline.build.board import Board
from pipeline.build.inflight import Busy
from pipeline.build.session import Session
from pipeline.build.tasks import Records
from pipeline.core.outcome import FAILED
from pipeline.edge.process import Stopping

# What is finished is safe from a kill at once, and from a power cut within this time.
SYNC_SECONDS = 0.05
# A signal that another thread took is handled when the main thread next wakes.
PATIENCE = 1.0


class Interrupted(Exception):
    """A signal asked the build to stop; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number


class Todo(NamedTuple):
    """What doit's runner asks of a dispatcher, before our own loop takes over."""

    tasks: dict[str, Any]
    selected_tasks: list[str]


class RoomRunner(Runner):  # type: ignore[misc]
    """Runs the stale targets of a session as their inputs get ready and their rooms have a place."""

    def __init__(self, session: Session, todo: set[int], jobs: int, reporter: Any, go_on: bool) -> None:
        super().__init__(Records(session), reporter, continue_=go_on)
        self._session = session
        self._board = Board(session, todo, go_on)
        session.maker.say = self._board.say
        # They live as long as the build, since children may be bound to the thread that started them.
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(max(1, min(jobs, len(todo))))]
        self._fault: BaseException | None = None

    @property
    def ended(self) -> dict[int, str]:
        return self._board.ended

    def run_tasks(self, _dispatcher: Todo) -> None:
        with self._signals():
            try:
                self._start()
                self._follow()
            except BaseException as error:  # noqa: BLE001 - raised below, once nothing runs any more
                self._stop(error)
                self._wait()
        for thread in filter(Thread.is_alive, self._threads):
            thread.join()
        self._sync()
        if FAILED in self.ended.values():
            self.final_result = FAILURE
        if self._fault is not None:
            raise self._fault

    def _start(self) -> None:
        self._board.enter(len(self._threads))
        for n, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:  # more than the machine gives
                self._board.leave(len(self._threads) - n)
                raise

    def _follow(self) -> None:
        while not self._board.over.is_set():
            self._board.told.wait(PATIENCE)
            self._board.over.wait(SYNC_SECONDS)
            self._catch_up()
        self._catch_up()

    def _wait(self) -> None:
        while not self._board.over.wait(PATIENCE):
            pass

    def _catch_up(self) -> None:
        """Sync what was recorded, then tell of it."""
        news = self._board.news()
        if news:
            self._sync()
        for store in self._session.maker.stores.values():
            store.rest()
        for target, outcome in news:
            if outcome is None:
                self.reporter.started(target)
            elif isinstance(outcome, str):
                self.reporter.said(target, outcome)
            else:
                self.reporter.ended(target, outcome)

    def _sync(self) -> None:
        for receipts in self._session.maker.receipts.values():
            receipts.sync()

    def _work(self) -> None:
        """What each thread does."""
        try:
            while (i := self._board.take()) is not None:
                self._made(i)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            self._stop(error)
        finally:
            self._board.leave()

    def _made(self, i: int) -> None:
        try:
            outcome = self._session.maker.make(self._session.graph.targets[i])
            self._board.hand_in(i, outcome)
        except Busy as busy:
            self._board.set_aside(i, busy.key)
            return
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            if not isinstance(error, Stopping):
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
