"""One theorem being proved in a Dojo that may be lost under way: what was done is done again in the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.edge.lean import dojo_reading
from pipeline.edge.lean.dojo_process import DojoProcess
from pipeline.edge.lean.dojo_refusing import refused_tactic
from pipeline.edge.lean.model import (
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
from pipeline.edge.lean.process import Ended, Overrun
from pipeline.edge.process import Stopping

GRACE = 5.0  # seconds after which the process of a Dojo is killed that did not say itself that time is over
REPLAY = 60.0


Opening = Callable[[], tuple[DojoProcess, dict[str, Any]]]


class DojoSession:
    """States are numbered here; in each Dojo they have other numbers.

    `open`: a new Dojo for the theorem, and its answer; `closed` is called once."""

    def __init__(
        self, theorem: Theorem, open_: Opening, closed: Callable[[], object], stop: Stop | None = None
    ) -> None:
        self._theorem, self._open, self._closed, self._stop = theorem, open_, closed, stop
        self._came: list[tuple[int, str]] = [(-1, "")]  # from which state, by which tactic
        self._there: dict[int, int] = {}  # state -> its number in the present Dojo
        self._dojo: DojoProcess | None = None
        self._is_open = True

    def begin(self) -> TacticState:
        answer = self._begun()
        return TacticState(0, dojo_reading.goals(answer["pp"]), answer["message"] or "")

    @property
    def file(self) -> str:
        """What LeanDojo wrote for Lean."""
        return self._dojo.file if self._dojo else ""

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        timeout = min(timeout, heartbeats / A_SECOND)
        if not self._is_open:
            raise ValueError("the session is closed")  # a Dojo opened now would be nobody's to end
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        if why := refused_tactic(tactic):
            return LeanError(why, "refused")
        return self._result(state.id, tactic, self._asked(self._number(state.id), tactic, timeout))

    def _asked(self, number: int, tactic: str, timeout: float) -> dict[str, Any]:
        assert self._dojo is not None
        try:
            answer = self._dojo.ask({"sid": number, "tactic": tactic, "timeout": timeout}, timeout + GRACE, self._stop)
        except Overrun:
            answer = {"lost": "timeout", "error": f"not done after {timeout + GRACE:g} seconds; the process was killed"}
        except Ended as error:
            answer = {"lost": "crash", "error": f"the process ended: {error}"}
        except BaseException:
            self._lose()  # it may still be busy
            raise
        if "lost" in answer:
            stopping = self._dojo.stopping
            self._lose()
            if stopping:
                raise Stopping  # it ended with the build, and the tactic is not to blame
        return answer

    def _result(self, before: int, tactic: str, answer: dict[str, Any]) -> TacticResult:
        if "error" in answer:
            return LeanError(answer["error"], answer.get("lost") or dojo_reading.kind(answer["error"]))
        message = answer["message"] or ""
        self._came.append((before, tactic))
        here = len(self._came) - 1
        if "done" in answer:
            return ProofFinished(here, message=message)
        self._there[here] = answer["sid"]
        return TacticState(here, dojo_reading.goals(answer["pp"]), message)

    def key(self, state: TacticState, goal: int = 0) -> str:
        return dojo_reading.key(self._theorem.before, state.goals[goal])

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._lose()
            finally:
                self._closed()

    def _begun(self) -> dict[str, Any]:
        self._dojo, answer = self._open()
        self._there[0] = answer["sid"]
        return answer

    def _lose(self) -> None:
        dojo, self._dojo = self._dojo, None
        self._there.clear()
        if dojo is not None:
            dojo.end()

    def _number(self, state: int) -> int:
        """Its number in the present Dojo, in which it is made again where it is not known."""
        if self._dojo is None:
            self._begun()
        if state not in self._there:
            before, tactic = self._came[state]
            answer = self._asked(self._number(before), tactic, REPLAY)
            if "sid" not in answer:
                raise LeanCrash(f"{self._theorem.name}: `{tactic}` does not lead where it did: {answer.get('error')}")
            self._there[state] = answer["sid"]
        return self._there[state]
