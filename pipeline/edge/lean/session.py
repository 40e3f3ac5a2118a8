"""One theorem being proved in a process that may be replaced under way: what was done is done again there."""

from __future__ import annotations

from typing import Any, Protocol

from pipeline.edge.lean.model import (
    LeanError,
    LeanStartError,
    ProofFinished,
    ProofGivenUp,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.edge.lean.process import Ended, Overrun, Repl

GRACE = 3.0  # seconds that a tactic may take longer than it should before its process is killed
REPLAY = 60.0
GIVEN_UP = ("sorry", "admit")


class Place(Protocol):
    """Where a session's process is: there is always one, not always the same."""

    def repl(self) -> tuple[Repl, int]:
        """The process, and its number among those that were here."""

    def lost(self, repl: Repl) -> None:
        """It is of no use any more."""


class ReplSession:
    """States are numbered here; in each process they have other numbers."""

    def __init__(self, theorem: Theorem, place: Place) -> None:
        self._theorem = theorem
        self._place = place
        self._came: list[tuple[int, str]] = [(-1, "")]  # from which state, by which tactic
        self._there: dict[int, int] = {}  # state -> its number in the present process
        self._process = -1

    def begin(self) -> TacticState:
        repl = self._present()
        answer = self._start(repl)
        return TacticState(0, tuple(answer["goals"]))

    def run_tac(self, state: TacticState, tactic: str, timeout: float) -> TacticResult:
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        repl = self._present()
        try:
            number = self._number(repl, state.id)
            request = {"cmd": "tac", "sid": number, "tactic": tactic, "timeout_ms": int(timeout * 1000)}
            answer = repl.ask(request, timeout + GRACE)
        except Overrun:
            self._place.lost(repl)
            return LeanError(f"not done after {timeout + GRACE:g} seconds; the process was killed", "timeout")
        except Ended as error:
            self._place.lost(repl)
            return LeanError(f"the process ended: {error}", "crash")
        return self._result(state, tactic, answer)

    def _result(self, state: TacticState, tactic: str, answer: dict[str, Any]) -> TacticResult:
        if "error" in answer:
            return LeanError(answer["error"], answer["kind"])
        self._came.append((state.id, tactic))
        here = len(self._came) - 1
        self._there[here] = answer["sid"]
        if answer.get("done"):
            return ProofFinished(here, tuple(answer["axioms"]), answer["info"])
        return TacticState(here, tuple(answer["goals"]), answer["info"])

    def key(self, state: TacticState, goal: int = 0) -> str:
        return state.goals[goal]

    def close(self) -> None:
        self._there.clear()

    def _present(self) -> Repl:
        repl, process = self._place.repl()
        if process != self._process:
            self._there.clear()
            self._process = process
        return repl

    def _start(self, repl: Repl) -> dict[str, Any]:
        theorem = self._theorem
        env = 0
        for text in theorem.before:
            env = repl.ask({"cmd": "cmd", "env": env, "text": text}, REPLAY)["env"]
        decl = f"theorem {theorem.name} : {theorem.statement}"
        answer = repl.ask({"cmd": "start", "env": env, "decl": decl}, REPLAY)
        if "error" in answer:
            raise LeanStartError(answer["error"])
        self._there[0] = answer["sid"]
        return answer

    def _number(self, repl: Repl, state: int) -> int:
        if state in self._there:
            return self._there[state]
        if state == 0:
            self._start(repl)
            return self._there[0]
        before, tactic = self._came[state]
        request = {"cmd": "tac", "sid": self._number(repl, before), "tactic": tactic, "timeout_ms": int(REPLAY * 1000)}
        self._there[state] = repl.ask(request, REPLAY + GRACE)["sid"]
        return self._there[state]
