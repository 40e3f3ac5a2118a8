"""Slot that holds one Lean process and replaces it when it dies or, with all that it started, grows too large."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, TypeVar

import psutil

from pipeline.lean.model import LeanCrash, LeanKilled, LeanStartError, NotElaborated, Stop
from pipeline.lean.repl.process import (
    START,
    FairLock,
    Killed,
    LeanCommand,
    Overrun,
    ProcessEnded,
    ProcessGone,
    Repl,
    Starter,
)
from pipeline.machine.process import BuildStopping

ProcessFamily = Sequence[psutil.Process]
GONE = 5.0  # seconds in which what was killed is gone, be it never so large


def process_family(pid: int) -> ProcessFamily:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def kill_families(roots: ProcessFamily) -> None:
    """Kill processes and all below them, and wait until they are gone.

    Each is stopped before it is asked for its children, so that none is born unseen."""
    waiting, found = [*roots], []
    while waiting:
        process = waiting.pop()
        with suppress(psutil.Error):  # gone by itself
            process.suspend()
            found.append(process)
            waiting += process.children()
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs([each for each in found if not _is_our_child(each)], GONE)


def _is_our_child(process: psutil.Process) -> bool:
    """Check if its status is ours to ask for, elsewhere."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.ppid() == os.getpid())
    return False


def resident_bytes(processes: ProcessFamily) -> int:
    """Memory of the processes in bytes; one that has ended has none."""
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            total += int(process.memory_info().rss)
    return total


ENVIRONMENTS = 32  # more are forgotten as soon as no session needs them
PREPARING = 60.0  # seconds for commands that stand before a theorem
GROWTH = 1.25  # a process that is as large as it may be when it starts may yet grow by so much
WATCH = 0.5  # seconds between looks at how large it is
_SORRY = re.compile(r"^declaration uses .sorry.")


class ReplState:
    """Process with environments and states, whose numbers no other knows.  `most`: bytes that it may have."""

    def __init__(self, ask: Callable[..., dict[str, Any]], pid: int, most: int) -> None:
        self.ask = ask
        self.freed: deque[list[int]] = deque()  # states of sessions that are closed
        self._environments: dict[tuple[str, ...], int] = {}
        self._family = process_family(pid)
        self._most = max(most, int(GROWTH * resident_bytes(self._family)))
        self._looked = time.monotonic()

    def must_be_replaced(self) -> bool:
        now = time.monotonic()
        if now - self._looked < WATCH:
            return False
        self._looked = now
        return resident_bytes(self._family) > self._most

    def environment(self, before: tuple[str, ...], stop: Stop | None) -> int:
        """Number of the environment after these commands, which are elaborated once a process."""
        number = 0
        for count, text in enumerate(before, start=1):
            if before[:count] not in self._environments:
                answer = self.ask({"cmd": "cmd", "env": number, "text": text}, PREPARING, stop)
                told = ((message["severity"], message["data"]) for message in answer.get("messages", ()))
                # a `sorry` leaves something to be proved; no proof could rest on what other warnings are about
                faults = (data for severity, data in told if severity == "error" or _SORRY.search(data))
                if wrong := answer.get("error") or next(faults, ""):
                    raise NotElaborated(f"{text.strip()}: {wrong}")
                self._environments[before[:count]] = int(answer["env"])
            number = self._environments[before[:count]]
        return number

    def tidy(self, alone: bool, stop: Stop | None) -> None:
        """Drop the states of closed sessions; `alone`: no other session has anything here."""
        if alone and len(self._environments) >= ENVIRONMENTS:
            self._environments = {}
            self.freed.clear()
            self.ask({"cmd": "forget"}, PREPARING, stop)
        elif self.freed:
            freed = [self.freed.popleft() for _ in range(len(self.freed))]
            self.ask({"cmd": "drop", "sids": [sid for sids in freed for sid in sids]}, PREPARING, stop)


STARTS = 2  # one may fail for want of memory just then
TRIES = 3  # processes that may end before they are asked
T = TypeVar("T")


# A slot:  empty -> starting   the first use
#          starting -> warm    the process is ready; environments and states are kept in it
#          starting -> empty   it ended, or was too slow: another one, STARTS times
#          warm -> empty       it was lost while asked, or has grown too large: the next use starts another
#          any -> closed       for good
class ReplSlot:
    """`most`: bytes above which its process makes place for a new one.  `load`: how many are in it."""

    def __init__(self, command: LeanCommand, starter: Starter, most: int) -> None:
        self._command, self._starter, self._most = command, starter, most
        self._lock = Lock()  # for `load` and the process; `_turns` is for requests
        self._turns = FairLock()
        self._repl: Repl | None = None
        self._warm: ReplState | None = None
        self._closed = False
        self.load = 0

    @property
    def pid(self) -> int:
        """Process id; 0 when there is no process."""
        repl = self._repl
        return repl.pid if repl else 0

    def enter(self) -> None:
        with self._lock:
            self.load += 1

    def leave(self) -> None:
        with self._lock:
            self.load -= 1

    def use(self, do: Callable[[ReplState], T], stop: Stop | None) -> T:
        """Use the process, which has no other request meanwhile.

        If it had ended before, or was killed from outside, the request is not to blame: another process is asked."""
        last: ProcessGone | None = None
        with self._turns.hold(stop):
            for _ in range(TRIES):
                try:
                    if self._warm is not None and self._warm.must_be_replaced():
                        self._lose()
                    return do(self._warm or self._start_and_wait(stop))
                except ProcessGone as error:
                    last = error
        if isinstance(last, Killed):
            raise LeanKilled(f"{TRIES} processes of {self._command.name} were killed one after another: {last}")
        raise LeanCrash(f"{TRIES} processes ended before they were asked: {last}")

    def _ask(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]:
        """Ask the process; whatever leaves it dead or busy is the end of it."""
        assert self._repl is not None
        try:
            return self._repl.ask(request, timeout, stop)
        except BaseException as error:
            number = self._repl.was_killed() if isinstance(error, ProcessEnded) else 0
            self._lose()
            if number:
                what = f"signal {number} from outside; is there memory enough? `processes` says how many run at once"
                raise Killed(what) from error
            raise

    def _start_and_wait(self, stop: Stop | None) -> ReplState:
        """Start a process and wait for it. Interrupted, it goes on starting, for the next use."""
        why = ""
        for _ in range(STARTS):
            with self._lock:
                if self._closed:
                    raise LeanStartError("this Lean was closed")
                try:
                    repl = self._repl = self._repl or Repl(self._command, self._starter)
                except OSError as error:
                    raise LeanStartError(f"{self._command.name} does not start: {error}") from error
            try:
                repl.await_ready(stop)
            except ProcessEnded as error:
                why = str(error) or "it ends without a word"
            except Overrun:
                why = f"it is not ready after {START:g} seconds"
            else:
                self._warm = ReplState(self._ask, repl.pid, self._most)
                return self._warm
            self._lose()
        raise LeanStartError(f"{self._command.name} does not start: {why}")

    def _lose(self) -> None:
        """End a process that is of no use any more."""
        self._end()
        if self._starter.stopping:
            raise BuildStopping  # it ended with the build, and what was asked is not to blame

    def _end(self) -> None:
        with self._lock:
            repl, self._repl, self._warm = self._repl, None, None
        if repl is not None:
            repl.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._repl is not None:
                self._repl.kill()  # so that no turn lasts
        with self._turns.hold():
            self._end()
