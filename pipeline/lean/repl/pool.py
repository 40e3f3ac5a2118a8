"""Pool of warm Lean processes, shared by the sessions of many theorems.

Whole proofs have processes of their own, in which no session ever was.

A session outlives its process: how the states of its theorem came about is kept, and done again in the next one,
without the theorem noticing.  States are numbered once for all; in each process they have other numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from pipeline.lean import model
from pipeline.lean.model import (
    GIVEN_UP,
    HEARTBEATS,
    TRUSTED,
    Begun,
    LeanCrash,
    LeanError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
    unheard,
)
from pipeline.lean.repl.process import LeanCommand, Overrun, ProcessEnded, ProcessGone, Starter
from pipeline.lean.repl.slot import PREPARING, ReplSlot, ReplState

REPLAY = 60.0  # seconds for a tactic that ended within its own time before: now the machine may be busier
_NUMBERED = re.compile(r"(\?[A-Za-z_.]*)\d+")


class TacticStep(NamedTuple):
    """Step of a session: state before, tactic, and the goals it left; the first step is from nowhere."""

    before: int
    tactic: str
    goals: tuple[str, ...]


class StateHistory:
    """Trail of a session: its states, with numbers that stay; in each process they have others."""

    def __init__(self, theorem: Theorem) -> None:
        self._theorem = theorem
        self._steps: list[TacticStep] = []
        self._numbers: dict[int, int] = {}  # state -> its number in `_warm`
        self._warm: ReplState | None = None

    def goals(self, state: int) -> tuple[str, ...]:
        return self._steps[state].goals

    def path_to(self, state: int) -> tuple[str, ...]:
        """Statement and tactics that lead to a state."""
        tactics = []
        while state:
            state, tactic, _ = self._steps[state]
            tactics.append(tactic)
        return (self._theorem.statement, *reversed(tactics))

    def add(self, step: TacticStep, there: int) -> int:
        """Add the state that a step came to, which has the number `there` in the present process."""
        self._steps.append(step)
        self._numbers[len(self._steps) - 1] = there
        return len(self._steps) - 1

    def number_in(self, warm: ReplState, state: int, stop: Stop | None) -> int:
        """Number of a state in this process.  ProcessGone leaves all as it was."""
        if warm is not self._warm:
            self._warm = warm
            self._numbers.clear()
        if state not in self._numbers:
            try:
                self._replay(warm, state, stop)
            except ProcessGone:
                raise
            except (ProcessEnded, Overrun) as error:
                raise LeanCrash(
                    f"{self._theorem.name}: lost on the way to state {state}: {end_message(error)}"
                ) from error
        return self._numbers[state]

    def _replay(self, warm: ReplState, state: int, stop: Stop | None) -> None:
        missing = []
        while state not in self._numbers and state:
            missing.append(state)
            state = self._steps[state].before
        if state not in self._numbers:
            self._start(warm, stop)
        for each in reversed(missing):
            before, tactic, _ = self._steps[each]
            request = {"cmd": "tac", "sid": self._numbers[before], "tactic": tactic, "timeout_ms": int(1000 * REPLAY)}
            answer = warm.ask(request, REPLAY + 10, stop)
            self._check_same(each, tuple(answer.get("goals", [f"error: {answer.get('error')}"])))
            self._numbers[each] = answer["sid"]

    def _start(self, warm: ReplState, stop: Stop | None) -> None:
        theorem = self._theorem
        env = warm.environment(theorem.before, stop)
        request = {"cmd": "start", "env": env, "statement": theorem.statement, "name": theorem.name}
        answer = warm.ask(request, PREPARING, stop)
        if "error" in answer:
            raise NotElaborated(answer["error"])
        if not self._steps:
            self._steps.append(TacticStep(-1, "", tuple(answer["goals"])))
        self._check_same(0, tuple(answer["goals"]))
        self._numbers[0] = answer["sid"]

    def _check_same(self, state: int, goals: tuple[str, ...]) -> None:
        """Check that a state is as it was. An unknown has a number in it, which may be another one each time."""
        was = self._steps[state].goals
        if goals != was and [*map(_without_numbers, goals)] != [*map(_without_numbers, was)]:
            raise LeanCrash(
                f"{self._theorem.name}: state {state} is {_join_goals(goals)} now; it was {_join_goals(was)}"
            )

    def leave(self) -> None:
        """Let the process forget all states."""
        if self._warm is not None:
            self._warm.freed.append([*self._numbers.values()])


def end_message(error: ProcessEnded | Overrun) -> str:
    if isinstance(error, Overrun):
        return "it took too long, and the process was killed"
    return f"the process ended: {error}" if str(error) else "the process ended without a word"


def _without_numbers(goal: str) -> str:
    return _NUMBERED.sub(r"\1", goal)


def _join_goals(goals: tuple[str, ...]) -> str:
    return "; ".join(goals) or "no goals"


# Seconds that a tactic may overrun before its process is killed: what a new one costs.
OVERRUN_GRACE = 3.0
TOO_LARGE = "!"  # a goal that was not written down: what follows is numbers that mean nothing in another process


class ReplSession:
    """Session in a slot, which it may share with others."""

    def __init__(self, theorem: Theorem, slot: ReplSlot, stop: Stop | None = None) -> None:
        self._slot, self._stop = slot, stop
        self._trail, self._before = StateHistory(theorem), theorem.before
        self._is_open = True

    def begin(self) -> TacticState:
        self._slot.use(self._begin_in, self._stop)
        return TacticState(0, self._trail.goals(0))

    def _begin_in(self, warm: ReplState) -> None:
        warm.tidy(self._slot.load == 1, self._stop)
        self._trail.number_in(warm, 0, self._stop)

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        request = {"cmd": "tac", "tactic": tactic, "timeout_ms": milliseconds(timeout), "heartbeats": heartbeats}
        try:
            answer = self._ask(state.id, request, timeout + OVERRUN_GRACE)
        except (ProcessEnded, Overrun) as error:
            return as_lean_error(error)
        return self._result(state, tactic, answer)

    def _result(self, state: TacticState, tactic: str, answer: Mapping[str, Any]) -> TacticResult:
        if "error" in answer:
            return LeanError(answer["error"], answer["kind"])
        goals = tuple(answer["goals"])
        here = self._trail.add(TacticStep(state.id, tactic, goals), answer["sid"])
        if not answer.get("done"):
            return TacticState(here, goals, answer["info"])
        if foreign := axiom_problem(answer):
            return LeanError(foreign, "axioms")
        return ProofFinished(here, tuple(answer["axioms"]), answer["info"])

    def key(self, state: TacticState, goal: int = 0) -> str:
        exact = self._exact_goal(state, goal)
        if exact.startswith(TOO_LARGE):
            return model.goal_key((*self._before, *self._trail.path_to(state.id)), f"{TOO_LARGE}{goal}")
        return model.goal_key(self._before, exact)

    def _exact_goal(self, state: TacticState, goal: int) -> str:
        request = {"cmd": "key", "goal": goal}
        try:
            try:
                answer = self._ask(state.id, request, PREPARING)
            except ProcessEnded:  # it may have been killed
                answer = self._ask(state.id, request, PREPARING)
        except (ProcessEnded, Overrun):
            return TOO_LARGE  # hundreds of hypotheses that look alike take minutes
        if "error" in answer:
            raise LeanCrash(f"no key for {state.goals[goal]}: {answer['error']}")
        return str(answer["exact"])

    def _ask(self, state: int, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        if not self._is_open:
            raise ValueError("the session is closed")
        trail, stop = self._trail, self._stop
        return self._slot.use(
            lambda warm: warm.ask({**request, "sid": trail.number_in(warm, state, stop)}, timeout, stop), stop
        )

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._trail.leave()
            self._slot.leave()


def as_lean_error(error: ProcessEnded | Overrun) -> LeanError:
    return LeanError(end_message(error), "timeout" if isinstance(error, Overrun) else "crash")


def milliseconds(timeout: float) -> int:
    """Milliseconds, at least one: 0 is for ever."""
    return max(1, math.ceil(1000 * timeout))


def axiom_problem(answer: Mapping[str, Any]) -> str:
    """Axioms that are not trusted, in words; nothing if there are none."""
    foreign = sorted({*answer["axioms"]} - TRUSTED)
    return f"the proof rests on {', '.join(foreign)}" if foreign else ""


CHECK = 60.0  # seconds for a whole proof
MEGABYTE = 1 << 20
MEMORY = 1400  # megabytes


class Pool:
    """Pool of at most `size` processes for sessions; each starts when those before it are taken.

    Checks have processes of their own, in which no session ever was: `size` of them, or one when there are sessions."""

    def __init__(
        self, command: LeanCommand, starter: Starter, size: int = 1, version: str = "", memory: int = MEMORY
    ) -> None:
        """`memory`: megabytes above which a process makes place for a new one."""
        self.version = version
        self._lock = Lock()
        self._slots, self._clean = (
            [ReplSlot(command, starter, memory * MEGABYTE) for _ in range(size)] for _ in range(2)
        )
        self._has_sessions = False

    def warm(self) -> None:
        """Start all that sessions may need, without waiting until they are ready."""
        for slot in self._slots:
            slot.start()

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[ReplSession, TacticState]:
        slot = self._enter_slot(self._slots, has_sessions=True)
        session = ReplSession(theorem, slot, stop)
        try:
            return session, session.begin()
        except BaseException:
            session.close()
            raise

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """The lines of the script as they would stand after `by`."""
        slot = self._enter_slot(self._clean)
        try:
            return _check_error(slot.use(lambda warm: _run_check(warm, theorem, "\n".join(script), stop, begun), stop))
        except NotElaborated as error:
            return LeanError(str(error), "elab")
        except (ProcessEnded, Overrun) as error:
            return as_lean_error(error)
        finally:
            slot.leave()

    def _enter_slot(self, slots: Sequence[ReplSlot], has_sessions: bool = False) -> ReplSlot:
        """Enter the slot with the fewest sessions; of equals the first, so that no more start than are needed."""
        with self._lock:
            self._has_sessions |= has_sessions
            if slots is self._clean and self._has_sessions:
                slots = slots[:1]
            slot = min(slots, key=lambda each: each.load)
            slot.enter()
            return slot

    def pids(self) -> list[int]:
        """Process ids of all processes that there are now."""
        return [slot.pid for slot in [*self._slots, *self._clean] if slot.pid]

    def close(self) -> None:
        for slot in [*self._slots, *self._clean]:
            slot.close()


def _run_check(warm: ReplState, theorem: Theorem, script: str, stop: Stop | None, begun: Begun) -> dict[str, Any]:
    warm.tidy(True, stop)  # nothing that a check makes is for another
    env = warm.environment(theorem.before, stop)
    named = {"cmd": "check", "env": env, "statement": theorem.statement, "name": theorem.name}
    begun()
    return warm.ask({**named, "script": script, "timeout_ms": milliseconds(CHECK)}, CHECK + OVERRUN_GRACE, stop)


def _check_error(answer: Mapping[str, Any]) -> LeanError | None:
    if "error" in answer:
        return LeanError(answer["error"], answer["kind"])
    foreign = axiom_problem(answer)
    return LeanError(foreign, "axioms") if foreign else None
