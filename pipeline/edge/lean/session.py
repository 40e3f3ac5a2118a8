"""One theorem being proved in a process that may be replaced under way, without the theorem noticing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipeline.edge.lean import keys
from pipeline.edge.lean.model import (
    GIVEN_UP,
    HEARTBEATS,
    TRUSTED,
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
from pipeline.edge.lean.slots import Slot
from pipeline.edge.lean.trail import Step, Trail, told
from pipeline.edge.lean.warm import PREPARING, Warm

GRACE = 3.0  # seconds that a tactic may take longer than it should before its process is killed: what a new one costs
TOO_LARGE = "!"  # a goal that was not written down: what follows is numbers that mean nothing in another process


class ReplSession:
    """In a slot, which it may share with others."""

    def __init__(self, theorem: Theorem, slot: Slot, stop: Stop | None = None) -> None:
        self._slot, self._stop = slot, stop
        self._trail, self._before = Trail(theorem), theorem.before
        self._is_open = True

    def begin(self) -> TacticState:
        self._slot.use(self._begun, self._stop)
        return TacticState(0, self._trail.goals(0))

    def _begun(self, warm: Warm) -> None:
        warm.tidy(self._slot.load == 1, self._stop)
        self._trail.brought(warm, 0, self._stop)

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        request = {"cmd": "tac", "tactic": tactic, "timeout_ms": milliseconds(timeout), "heartbeats": heartbeats}
        try:
            answer = self._ask(state.id, request, timeout + GRACE)
        except (Ended, Overrun) as error:
            return failed(error)
        return self._result(state, tactic, answer)

    def _result(self, state: TacticState, tactic: str, answer: Mapping[str, Any]) -> TacticResult:
        if "error" in answer:
            return LeanError(answer["error"], answer["kind"])
        goals = tuple(answer["goals"])
        here = self._trail.add(Step(state.id, tactic, goals), answer["sid"])
        if not answer.get("done"):
            return TacticState(here, goals, answer["info"])
        if foreign := untrusted(answer):
            return LeanError(foreign, "axioms")
        return ProofFinished(here, tuple(answer["axioms"]), answer["info"])

    def key(self, state: TacticState, goal: int = 0) -> str:
        exact = self._exact(state, goal)
        if exact.startswith(TOO_LARGE):
            return keys.key((*self._before, *self._trail.way(state.id)), f"{TOO_LARGE}{goal}")
        return keys.key(self._before, exact)

    def _exact(self, state: TacticState, goal: int) -> str:
        request = {"cmd": "key", "goal": goal}
        try:
            try:
                answer = self._ask(state.id, request, PREPARING)
            except Ended:  # it may have been killed
                answer = self._ask(state.id, request, PREPARING)
        except (Ended, Overrun):
            return TOO_LARGE  # hundreds of hypotheses that cannot be told apart take minutes
        if "error" in answer:
            raise LeanCrash(f"no key for {state.goals[goal]}: {answer['error']}")
        return str(answer["exact"])

    def _ask(self, state: int, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        if not self._is_open:
            raise ValueError("the session is closed")
        trail, stop = self._trail, self._stop
        return self._slot.use(
            lambda warm: warm.ask({**request, "sid": trail.brought(warm, state, stop)}, timeout, stop), stop
        )

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._trail.leave()
            self._slot.leave()


def failed(error: Ended | Overrun) -> LeanError:
    return LeanError(told(error), "timeout" if isinstance(error, Overrun) else "crash")


def milliseconds(timeout: float) -> int:
    """At least one: 0 is for ever."""
    return max(1, math.ceil(1000 * timeout))


def untrusted(answer: Mapping[str, Any]) -> str:
    """What is wrong with the axioms; nothing if nothing is."""
    foreign = sorted({*answer["axioms"]} - TRUSTED)
    return f"the proof rests on {', '.join(foreign)}" if foreign else ""
