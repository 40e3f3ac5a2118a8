"""Processes of the backend leandojo: commands, one that holds a Dojo, and the theorem being proved in it.

A Dojo may be lost under way: what was done is done again in the next one, where states have other numbers."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pipeline.lean.dojo import text
from pipeline.lean.dojo.text import tactic_refusal
from pipeline.lean.model import (
    A_SECOND,
    GIVEN_UP,
    HEARTBEATS,
    LeanCrash,
    LeanError,
    ProofFinished,
    ProofGivenUp,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.lean.repl.process import POLL_PERIOD, Overrun, ProcessEnded, Starter, check_stop
from pipeline.machine.process import BuildStopping, has_ended, signal_group

CHILD = Path(__file__).with_name("child.py")
LAST_WORDS = 2000
PIECE = 1 << 16
PAUSE = 0.02  # seconds between looks at whether a process has ended
POLITE = 2.0  # seconds that a Dojo has to put away what it made


class CompletedCommand(NamedTuple):
    """Exit code of a command, and its output and errors."""

    code: int
    out: str
    err: str


def run_to_end(
    starter: Starter, argv: Sequence[str], env: Mapping[str, str], cwd: str, timeout: float, stop: Stop | None = None
) -> CompletedCommand:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = starter.start(argv, env, cwd=cwd, stdout=out, stderr=err)
        try:
            _await(child, time.monotonic() + timeout, stop)
        finally:
            starter.end(child)
        if starter.stopping:
            raise BuildStopping
        return CompletedCommand(child.returncode, _read(out), _read(err))


def _await(child: subprocess.Popen[bytes], deadline: float, stop: Stop | None) -> None:
    while not has_ended(child):
        check_stop(stop)
        if time.monotonic() >= deadline:
            signal_group(child.pid, signal.SIGKILL)
            raise Overrun
        time.sleep(PAUSE)


def _read(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode(errors="replace")
    return text


class DojoProcess:
    """Used by one thread at a time.  After Ended, Overrun and Interrupted it is of no use: it may still be busy."""

    def __init__(self, starter: Starter, env: Mapping[str, str], cwd: str) -> None:
        self._starter = starter
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._printed}
        # -I: neither the folder it starts in nor PYTHON… of the caller has a say in what it imports
        self._child = starter.start([sys.executable, "-I", str(CHILD)], env, cwd=cwd, **pipes)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        self._rest = b""
        self.file = ""  # what it writes for Lean

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def stopping(self) -> bool:
        """True while the build ends, and all of its processes."""
        return self._starter.stopping

    def ask(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        try:
            self._in.write(json.dumps(request).encode() + b"\n")
            self._in.flush()
        except BrokenPipeError:
            raise ProcessEnded(self.last_words()) from None
        answer: dict[str, Any] = json.loads(self._line(deadline, stop))
        self.file = answer.get("file", self.file)
        return answer

    def _line(self, deadline: float, stop: Stop | None) -> bytes:
        while b"\n" not in self._rest:
            check_stop(stop)
            left = deadline - time.monotonic()
            if left <= 0:
                raise Overrun
            if not select.select([self._out], [], [], min(left, POLL_PERIOD))[0]:
                continue
            piece = os.read(self._out.fileno(), PIECE)
            if not piece:
                raise ProcessEnded(self.last_words())
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def last_words(self) -> str:
        return _read(self._printed)[-LAST_WORDS:].strip()

    def end(self) -> None:
        """End the process and the Lean of its Dojo, which is in a session of its own."""
        with suppress(BrokenPipeError):
            self._in.close()  # a Dojo that does nothing puts away what it made, and ends
        deadline = time.monotonic() + POLITE
        while not has_ended(self._child) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        for each in _descendants(self._child.pid):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        signal_group(self._child.pid, signal.SIGKILL)
        self._starter.end(self._child)
        self._out.close()
        self._printed.close()
        if self.file:
            Path(self.file).unlink(missing_ok=True)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


DOJO_GRACE = 5.0  # seconds after which the process of a Dojo is killed that did not say itself that time is over
REPLAY = 60.0


Opening = Callable[[], tuple[DojoProcess, dict[str, Any]]]


# A session:  begun -> (lost -> begun)*   a process that was lost is opened anew by the next tactic, and what led to
#                                         its state is done again; DojoProcess itself is as a Repl
#             any -> closed               for good
class DojoSession:
    """Session of one theorem. States are numbered here; in each Dojo they have other numbers.

    `open`: a new Dojo for the theorem, and its answer; `closed` is called once."""

    def __init__(
        self, theorem: Theorem, open_: Opening, closed: Callable[[], object], stop: Stop | None = None
    ) -> None:
        self._theorem, self._open, self._closed, self._stop = theorem, open_, closed, stop
        self._steps: list[tuple[int, str]] = [(-1, "")]  # from which state, by which tactic
        self._numbers: dict[int, int] = {}  # state -> its number in the present Dojo
        self._dojo: DojoProcess | None = None
        self._is_open = True

    def begin(self) -> TacticState:
        answer = self._open_dojo()
        return TacticState(0, text.split_goals(answer["pp"]), answer["message"] or "")

    @property
    def file(self) -> str:
        """The file that LeanDojo wrote for Lean."""
        return self._dojo.file if self._dojo else ""

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        if not self._is_open:
            raise ValueError("the session is closed")  # no one would end a Dojo that is opened now
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        if why := tactic_refusal(tactic):
            return LeanError(why, "refused")
        return self._result(
            state.id, tactic, self._ask(self._number(state.id), tactic, seconds_allowed(timeout, heartbeats))
        )

    def _ask(self, number: int, tactic: str, timeout: float) -> dict[str, Any]:
        assert self._dojo is not None
        try:
            answer = self._dojo.ask(
                {"sid": number, "tactic": tactic, "timeout": timeout}, timeout + DOJO_GRACE, self._stop
            )
        except Overrun:
            answer = {
                "lost": "timeout",
                "error": f"not done after {timeout + DOJO_GRACE:g} seconds; the process was killed",
            }
        except ProcessEnded as error:
            answer = {"lost": "crash", "error": f"the process ended: {error}"}
        except BaseException:
            self._lose()  # it may still be busy
            raise
        if "lost" in answer:
            stopping = self._dojo.stopping
            self._lose()
            if stopping:
                raise BuildStopping  # it ended with the build, and the tactic is not to blame
        return answer

    def _result(self, before: int, tactic: str, answer: dict[str, Any]) -> TacticResult:
        if "error" in answer:
            return LeanError(answer["error"], answer.get("lost") or text.error_kind(answer["error"]))
        message = answer["message"] or ""
        self._steps.append((before, tactic))
        here = len(self._steps) - 1
        if "done" in answer:
            return ProofFinished(here, message=message)
        self._numbers[here] = answer["sid"]
        return TacticState(here, text.split_goals(answer["pp"]), message)

    def key(self, state: TacticState, goal: int = 0) -> str:
        return text.printed_goal_key(self._theorem.before, state.goals[goal])

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._lose()
            finally:
                self._closed()

    def _open_dojo(self) -> dict[str, Any]:
        self._dojo, answer = self._open()
        self._numbers[0] = answer["sid"]
        return answer

    def _lose(self) -> None:
        dojo, self._dojo = self._dojo, None
        self._numbers.clear()
        if dojo is not None:
            dojo.end()

    def _number(self, state: int) -> int:
        """Number of a state in the present Dojo, where it is made again if need be."""
        if self._dojo is None:
            self._open_dojo()
        if state not in self._numbers:
            before, tactic = self._steps[state]
            answer = self._ask(self._number(before), tactic, REPLAY)
            if "sid" not in answer:
                raise LeanCrash(f"{self._theorem.name}: `{tactic}` does not lead where it did: {answer.get('error')}")
            self._numbers[state] = answer["sid"]
        return self._numbers[state]


def seconds_allowed(timeout: float, heartbeats: int) -> float:
    """Seconds for a tactic, since heartbeats are not counted here.  Lean keeps its own limit."""
    return timeout if heartbeats == HEARTBEATS else min(timeout, heartbeats / A_SECOND)
