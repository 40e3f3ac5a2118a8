"""A place for one Lean process at a time: when it is lost or has grown too large, the next request finds a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

from pipeline.edge.lean.model import LeanCrash, LeanKilled, LeanStartError, Stop
from pipeline.edge.lean.process import START, Command, Ended, Gone, Killed, Overrun, Repl, Starter
from pipeline.edge.lean.turns import Turns
from pipeline.edge.lean.warm import Warm
from pipeline.edge.process import Stopping

STARTS = 2  # one may fail for want of memory just then
TRIES = 3  # processes that may end before they are asked
T = TypeVar("T")


class Slot:
    """`most`: bytes above which its process makes place for a new one.  `load`: how many are in it."""

    def __init__(self, command: Command, starter: Starter, most: int) -> None:
        self._command, self._starter, self._most = command, starter, most
        self._lock = Lock()  # for who is in it and which process it has; `_turns` is for what that is asked
        self._turns = Turns()
        self._repl: Repl | None = None
        self._warm: Warm | None = None
        self._closed = False
        self.load = 0

    @property
    def pid(self) -> int:
        """Of its process; 0 when there is none."""
        repl = self._repl
        return repl.pid if repl else 0

    def enter(self) -> None:
        with self._lock:
            self.load += 1

    def leave(self) -> None:
        with self._lock:
            self.load -= 1

    def use(self, do: Callable[[Warm], T], stop: Stop | None) -> T:
        """While it is done, nobody else asks the process anything.

        One that had ended before it was asked, or was killed from outside, is nobody's fault: another one is asked."""
        last: Gone | None = None
        with self._turns.turn(stop):
            for _ in range(TRIES):
                try:
                    return do(self._ready(stop))
                except Gone as error:
                    last = error
        if isinstance(last, Killed):
            raise LeanKilled(f"{TRIES} processes of {self._command.name} were killed one after another: {last}")
        raise LeanCrash(f"{TRIES} processes ended before they were asked: {last}")

    def _ready(self, stop: Stop | None) -> Warm:
        if self._warm is not None and self._warm.has_grown():
            self._lose()
        return self._warm or self._started(stop)

    def _ask(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]:
        """What leaves the process dead or busy is the end of it."""
        assert self._repl is not None
        try:
            return self._repl.ask(request, timeout, stop)
        except Ended as error:
            number = self._repl.was_killed()
            self._lose()
            if number:
                what = f"signal {number} from outside; is there memory enough? `processes` says how many run at once"
                raise Killed(what) from error
            raise
        except BaseException:
            self._lose()
            raise

    def start(self) -> None:
        """Without waiting until it is ready."""
        with self._lock:
            if self._closed:
                raise LeanStartError("this Lean was closed")
            if self._repl is None:
                try:
                    self._repl = Repl(self._command, self._starter)
                except OSError as error:
                    raise LeanStartError(f"{self._command.name} does not start: {error}") from error

    def _started(self, stop: Stop | None) -> Warm:
        """Interrupted, it goes on starting: somebody will want it."""
        why = ""
        for _ in range(STARTS):
            self.start()
            assert self._repl is not None
            try:
                self._repl.await_ready(stop)
            except Ended as error:
                why = str(error) or "it ends without a word"
            except Overrun:
                why = f"it is not ready after {START:g} seconds"
            else:
                self._warm = Warm(self._ask, self._repl.pid, self._most)
                return self._warm
            self._lose()
        raise LeanStartError(f"{self._command.name} does not start: {why}")

    def _lose(self) -> None:
        """Its process is of no use any more."""
        self._end()
        if self._starter.stopping:
            raise Stopping  # it ended with the build, and what was asked is not to blame

    def _end(self) -> None:
        with self._lock:
            repl, self._repl, self._warm = self._repl, None, None
        if repl is not None:
            repl.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._repl is not None:
                self._repl.kill()  # so that nobody's turn lasts
        with self._turns.turn():
            self._end()
