"""One Lean process that runs Repl.lean: a request, then its answer, each a line of JSON; and turns at using it.

Turns are in the order of asking, so that no thread waits for ever."""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

from pipeline.lean.model import Interrupted, Stop
from pipeline.machine.failures import FROM_OUTSIDE
from pipeline.machine.process import has_ended, signal_group

POLL_PERIOD = 0.1  # seconds between looks at whether to stop


class FairLock:
    """A lock in the order of asking: a plain Lock may go to its last holder again before the others wake up."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: deque[Lock] = deque()  # of the holder, then of those who wait: a turn is free when it has come

    @contextmanager
    def hold(self, stop: Stop | None = None) -> Iterator[None]:
        check_stop(stop)
        mine = Lock()
        with self._lock:
            if self._turns:
                mine.acquire()
            self._turns.append(mine)
        try:
            while not mine.acquire(timeout=POLL_PERIOD):
                check_stop(stop)
            yield
        finally:
            with self._lock:
                is_first = self._turns[0] is mine
                self._turns.remove(mine)
                if is_first and self._turns:
                    self._turns[0].release()


def check_stop(stop: Stop | None) -> None:
    if stop is not None and stop.is_set():
        raise Interrupted


READY = b"ready"
START = 300.0  # seconds that a process has until it is ready
HURRY = 0.25  # seconds that the answer has when it is not wanted any more: often it is all but there
PIECE = 1 << 16
ENDING = 1.0  # seconds that it has to end when it has closed its output
LAST_WORDS = 2000  # bytes
_decode = json.JSONDecoder().decode


@dataclass(frozen=True)
class LeanCommand:
    """Command that starts a Lean with Repl.lean.  `name`: for people."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    name: str = "Lean"


class Starter(Protocol):
    """Starts processes in sessions of their own and ends them: `pipeline.machine.process.Processes` is one."""

    stopping: bool

    def start(self, argv: Any, env: Any, **how: Any) -> subprocess.Popen[bytes]: ...

    def end(self, child: subprocess.Popen[bytes]) -> None: ...


class ProcessEnded(Exception):
    """Error of a process that ended before it answered."""


class ProcessGone(ProcessEnded):
    """Error of a process that had ended before it was asked."""


class Killed(ProcessGone):
    """Error of a process that somebody else ended by a signal: its request is not to blame, and may be repeated."""


class Overrun(Exception):
    """Error of a process that did not answer in time."""


# A process:  starting -> ready      it has said so, within START
#             ready -> asked -> ready      an answer came in time
#             starting | asked -> lost     ProcessEnded, Overrun, or Interrupted while asked: it may still be busy
#             any -> ended      `end`; the signal that ended it is known from then on
class Repl:
    """One process. A word drawn for every request tells its answers from anything else that is printed.

    It is used by one thread at a time; only `kill` may come from any other."""

    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def __init__(self, command: LeanCommand, starter: Starter) -> None:
        """Start the process, which need not be ready yet."""
        self.starter = starter
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._printed}
        try:
            self._child = starter.start(command.argv, command.env, cwd=command.cwd, **pipes)
        except BaseException:
            self._printed.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        os.set_blocking(self._in, False)
        self._heard = select.poll()
        self._heard.register(self._out, select.POLLIN)
        self._rest = b""
        self._aside: deque[bytes] = deque(maxlen=20)  # lines that were no answers
        self._deadline = time.monotonic() + START
        self._is_ready = False
        self._ours = False  # True once we ended it
        self._seen = 0  # how much of what it printed was before it was ready, and says nothing of its end

    @property
    def pid(self) -> int:
        return self._child.pid

    def await_ready(self, stop: Stop | None = None) -> None:
        """Wait until it is ready. Interrupted, it goes on starting."""
        if not self._is_ready:
            self._answer(READY, self._deadline, stop, 0.0)
            self._is_ready = True
            self._aside.clear()
            self._seen = self._printed.seek(0, os.SEEK_END)

    def ask(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]:
        word = secrets.token_hex(8)
        deadline = time.monotonic() + timeout
        self._write(self.encode({**request, "word": word}).encode() + b"\n", deadline)
        return self._answer(word.encode(), deadline, stop, HURRY)

    def _write(self, data: bytes, deadline: float) -> None:
        """Write a request. An idle process reads, so this waits only for much data, or a process that hangs."""
        try:
            while True:
                with suppress(BlockingIOError):
                    data = data[os.write(self._in, data) :]
                if not data:
                    return
                room = select.poll()
                room.register(self._in, select.POLLOUT)
                if not room.poll(_milliseconds_left(deadline)):
                    raise Overrun
        except BrokenPipeError:
            raise ProcessGone(self.last_words()) from None

    def _answer(self, word: bytes, deadline: float, stop: Stop | None, hurry: float) -> dict[str, Any]:
        hurried = False
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                if line.startswith(word + b" "):
                    answer: dict[str, Any] = _decode(line[len(word) + 1 :].decode())
                    return answer
                self._aside.append(line)
            elif self._heard.poll(
                _milliseconds_left(deadline if stop is None else min(deadline, time.monotonic() + POLL_PERIOD))
            ):
                piece = os.read(self._out, PIECE)
                if not piece:
                    raise ProcessEnded(self.last_words())
                self._rest += piece
            elif time.monotonic() >= deadline:
                raise Interrupted if hurried else Overrun
            elif stop is not None and not hurried and stop.is_set():
                hurried, deadline = True, min(deadline, time.monotonic() + hurry)

    def last_words(self) -> str:
        """Output that was no answer, as far as it is about the end of the process."""
        self._printed.seek(max(self._seen, self._printed.seek(0, os.SEEK_END) - LAST_WORDS))
        heard = [line for line in [*self._aside, self._rest] if line.strip()]
        return b"\n".join([*heard, self._printed.read()])[-LAST_WORDS:].decode(errors="replace").strip()

    def kill(self) -> None:
        """Kill the process at once; a waiting `ask` raises ProcessEnded."""
        self._ours = True
        if self._child.returncode is None:
            signal_group(self._child.pid, signal.SIGKILL)

    def was_killed(self) -> int:
        """The signal by which somebody else ended it; 0 if it ended by itself, or by us.  The process is over then."""
        until = time.monotonic() + ENDING
        while not self._ours and not has_ended(self._child) and time.monotonic() < until:
            time.sleep(0.01)  # it closes its output a moment before
        by_itself = not self._ours
        self.end()
        number = -self._child.returncode if by_itself else 0
        return number if number in FROM_OUTSIDE else 0

    def end(self) -> None:
        self.kill()
        self.starter.end(self._child)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._printed.close()


def _milliseconds_left(deadline: float) -> int:
    """Milliseconds until the deadline, at least one until it is over."""
    return max(0, math.ceil(1000 * (deadline - time.monotonic())))
