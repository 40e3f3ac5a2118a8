"""Processes of the backend leandojo: commands, one that holds a Dojo, and the theorem being proved in it.

A Dojo may be lost under way: what was done is done again in the next one, where states have other numbers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from pipeline.lean.repl.pool import NOWHERE, StateHistory, TacticStep
from pipeline.lean.repl.process import LeanCommand, Overrun, ProcessEnded, Repl, Starter, check_stop
from pipeline.lean.repl.slot import kill_families, process_family
from pipeline.machine.process import BuildStopping, has_ended, signal_group

CHILD = Path(__file__).with_name("child.py")
PAUSE = 0.02  # seconds between looks at whether a process has ended
POLITE = 2.0  # seconds that a Dojo has to put away what it made

CompletedCommand = subprocess.CompletedProcess[str]


def run_to_end(
    starter: Starter, argv: Sequence[str], env: Mapping[str, str], cwd: str, timeout: float, stop: Stop | None = None
) -> CompletedCommand:
    """Run a command; Overrun, and its end, where it takes longer than `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = starter.start(argv, env, cwd=cwd, stdout=out, stderr=err)
        try:
            while not has_ended(child):
                check_stop(stop)
                if time.monotonic() >= deadline:
                    signal_group(child.pid, signal.SIGKILL)
                    raise Overrun
                time.sleep(PAUSE)
        finally:
            starter.end(child)
        if starter.stopping:
            raise BuildStopping
        for file in (out, err):
            file.seek(0)
        printed, errors = (file.read().decode(errors="replace") for file in (out, err))
        return CompletedCommand(argv, child.returncode, printed, errors)


class DojoProcess(Repl):
    """A process that holds one Dojo; `file` is what that writes for Lean."""

    encode = json.JSONEncoder().encode  # in ASCII: the path of a project need not be UTF-8

    def __init__(self, starter: Starter, env: Mapping[str, str], cwd: str) -> None:
        # -I: neither the folder it starts in nor PYTHON… of the caller has a say in what it imports
        super().__init__(LeanCommand((sys.executable, "-I", str(CHILD)), env, cwd), starter)
        self.file = ""

    def end(self) -> None:
        """End the process and the Lean of its Dojo, which is in a session of its own."""
        known = process_family(self.pid)  # by now: those whose parent ends are nobody's children
        if self._child.stdin is not None:
            self._child.stdin.close()  # a Dojo that does nothing puts away what it made, and ends
        deadline = time.monotonic() + POLITE
        while not has_ended(self._child) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        kill_families(known)
        super().end()
        if self.file:
            Path(self.file).unlink(missing_ok=True)


DOJO_GRACE = 5.0  # seconds after which the process of a Dojo is killed that did not say itself that time is over
REPLAY = 60.0


Opening = Callable[[], tuple[DojoProcess, dict[str, Any]]]


# A session:  begun -> (lost -> begun)*   a process that was lost is opened anew by the next tactic, and what led to
#                                         its state is done again; DojoProcess itself is as a Repl
#             any -> closed               for good
class DojoSession:
    """Session of one theorem.

    `open_`: a new Dojo for the theorem, and its answer; `closed` is called once."""

    def __init__(
        self, theorem: Theorem, open_: Opening, closed: Callable[[], object], stop: Stop | None = None
    ) -> None:
        self._theorem, self._open, self._closed, self._stop = theorem, open_, closed, stop
        self._history = StateHistory(theorem)
        self._dojo: DojoProcess | None = None
        self._is_open = True

    def begin(self) -> TacticState:
        self._dojo, answer = self._open()
        goals = text.split_goals(answer["pp"])
        self._history.number(0, lambda *_: (answer["sid"], goals))
        return TacticState(0, goals, answer["message"] or "")

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
        number = self._history.number(state.id, self._redo)
        answer = self._ask(number, tactic, seconds_allowed(timeout, heartbeats))
        if "error" in answer:
            return LeanError(answer["error"], answer.get("lost") or text.error_kind(answer["error"]))
        goals = text.split_goals(answer.get("pp", ""))
        here = self._history.add(TacticStep(state.id, tactic, goals), answer.get("sid"))
        message = answer["message"] or ""
        return ProofFinished(here, message=message) if "done" in answer else TacticState(here, goals, message)

    def _redo(self, before: int, tactic: str) -> tuple[int, tuple[str, ...]]:
        if before == NOWHERE:
            self._dojo, answer = self._open()
        else:
            answer = self._ask(before, tactic, REPLAY)
        if "sid" not in answer:
            raise LeanCrash(f"{self._theorem.name}: `{tactic}` does not lead where it did: {answer.get('error')}")
        return answer["sid"], text.split_goals(answer["pp"])

    def _ask(self, number: int, tactic: str, timeout: float) -> dict[str, Any]:
        assert self._dojo is not None
        request, longest = {"sid": number, "tactic": tactic, "timeout": timeout}, timeout + DOJO_GRACE
        try:
            answer = self._dojo.ask(request, longest, self._stop)
        except Overrun:
            answer = {"lost": "timeout", "error": f"not done after {longest:g} seconds; the process was killed"}
        except ProcessEnded as error:
            answer = {"lost": "crash", "error": f"the process ended: {error}"}
        except BaseException:
            self._lose()  # it may still be busy
            raise
        if "lost" in answer:
            stopping = self._dojo.starter.stopping
            self._lose()
            if stopping:
                raise BuildStopping  # it ended with the build, and the tactic is not to blame
        return answer

    def key(self, state: TacticState, goal: int = 0) -> str:
        return text.printed_goal_key(self._theorem.before, state.goals[goal])

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._lose()
            finally:
                self._closed()

    def _lose(self) -> None:
        dojo, self._dojo = self._dojo, None
        self._history.numbers.clear()
        if dojo is not None:
            dojo.end()


def seconds_allowed(timeout: float, heartbeats: int) -> float:
    """Seconds for a tactic, since heartbeats are not counted here.  Lean keeps its own limit."""
    return timeout if heartbeats == HEARTBEATS else min(timeout, heartbeats / A_SECOND)
