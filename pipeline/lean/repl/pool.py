"""Pool of warm Lean processes, shared by the sessions of many theorems.

Whole proofs have processes of their own, in which no session ever was.

A session outlives its process: what led to the states of its theorem is done again in the next one, without the
theorem noticing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
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
NOWHERE = -1  # no state: the first one comes from there

# Runs a tactic in the present process, on the state of that number there, or states the theorem, from NOWHERE.
# It gives the number and the goals of the state that this came to.
Redo = Callable[[int, str], tuple[int, tuple[str, ...]]]


class TacticStep(NamedTuple):
    """Step of a session: state before, tactic, and the goals it left; the first one is from NOWHERE."""

    before: int
    tactic: str
    goals: tuple[str, ...] | None  # None: not made yet


class StateHistory:
    """History of a session: its states, by numbers that stay; in each process they have others, and are made again.

    `numbers`: state -> its number in the present process, as far as it is known there."""

    def __init__(self, theorem: Theorem) -> None:
        self._theorem = theorem
        self._steps = [TacticStep(NOWHERE, "", None)]
        self.numbers: dict[int, int] = {}

    def add(self, step: TacticStep, number: int | None) -> int:
        """Add the state that a step came to; without a `number` it is one that nothing goes on from."""
        self._steps.append(step)
        if number is not None:
            self.numbers[len(self._steps) - 1] = number
        return len(self._steps) - 1

    def path_to(self, state: int) -> tuple[str, ...]:
        """Statement and tactics that lead to a state."""
        tactics = []
        while state:
            state, tactic, _ = self._steps[state]
            tactics.append(tactic)
        return (self._theorem.statement, *reversed(tactics))

    def goals(self, state: int) -> tuple[str, ...]:
        return self._steps[state].goals or ()

    def number(self, state: int, redo: Redo) -> int:
        """Number of a state in the present process, where all that led to it is done again if need be."""
        missing = [state]
        while missing[-1] not in self.numbers and missing[-1] != NOWHERE:
            missing.append(self._steps[missing[-1]].before)
        for each in reversed(missing[:-1]):
            before, tactic, goals = self._steps[each]
            number, now = redo(self.numbers.get(before, NOWHERE), tactic)
            # an unknown has a number in it, which may be another one each time
            if goals is not None and [*map(_without_numbers, now)] != [*map(_without_numbers, goals)]:
                was, is_now = ("; ".join(one) or "no goals" for one in (goals, now))
                raise LeanCrash(f"{self._theorem.name}: state {each} is {is_now} now; it was {was}")
            self._steps[each] = TacticStep(before, tactic, now if goals is None else goals)
            self.numbers[each] = number
        return self.numbers[state]


def _without_numbers(goal: str) -> str:
    return _NUMBERED.sub(r"\1", goal)


def as_lean_error(error: ProcessEnded | Overrun) -> LeanError:
    if isinstance(error, Overrun):
        return LeanError("it took too long, and the process was killed", "timeout")
    return LeanError(f"the process ended: {error}" if str(error) else "the process ended without a word", "crash")


def milliseconds(timeout: float) -> int:
    """Milliseconds, at least one: 0 is for ever."""
    return max(1, math.ceil(1000 * timeout))


def answer_error(answer: Mapping[str, Any]) -> LeanError | None:
    """The error that is answered, or of a proof that rests on axioms that are not trusted."""
    if "error" in answer:
        return LeanError(answer["error"], answer["kind"])
    foreign = sorted({*answer.get("axioms", ())} - TRUSTED)
    return LeanError(f"the proof rests on {', '.join(foreign)}", "axioms") if foreign else None


# Seconds that a tactic may overrun before its process is killed: what a new one costs.
OVERRUN_GRACE = 3.0
TOO_LARGE = "!"  # a goal that was not written down: what follows is numbers that mean nothing in another process


class ReplSession:
    """Session in a slot, which it may share with others."""

    def __init__(self, theorem: Theorem, slot: ReplSlot, stop: Stop | None = None) -> None:
        self._theorem, self._slot, self._stop = theorem, slot, stop
        self._history = StateHistory(theorem)
        self._warm: ReplState | None = None  # the process that the history's numbers are of
        self._is_open = True

    def begin(self) -> TacticState:
        def start(warm: ReplState) -> None:
            warm.tidy(self._slot.load == 1, self._stop)
            self._number(warm, 0)

        self._slot.use(start, self._stop)
        return TacticState(0, self._history.goals(0))

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        if tactic.strip() in GIVEN_UP:
            return ProofGivenUp()
        request = {"cmd": "tac", "tactic": tactic, "timeout_ms": milliseconds(timeout), "heartbeats": heartbeats}
        try:
            answer = self._ask(state.id, request, timeout + OVERRUN_GRACE)
        except (ProcessEnded, Overrun) as error:
            return as_lean_error(error)
        if "error" in answer:
            return LeanError(answer["error"], answer["kind"])
        goals = tuple(answer["goals"])
        here = self._history.add(TacticStep(state.id, tactic, goals), answer["sid"])
        if not answer.get("done"):
            return TacticState(here, goals, answer["info"])
        return answer_error(answer) or ProofFinished(here, tuple(answer["axioms"]), answer["info"])

    def key(self, state: TacticState, goal: int = 0) -> str:
        exact = self._exact_goal(state, goal)
        before = self._theorem.before
        if exact.startswith(TOO_LARGE):
            return model.goal_key((*before, *self._history.path_to(state.id)), f"{TOO_LARGE}{goal}")
        return model.goal_key(before, exact)

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
        return self._slot.use(
            lambda warm: warm.ask({**request, "sid": self._number(warm, state)}, timeout, self._stop), self._stop
        )

    def _number(self, warm: ReplState, state: int) -> int:
        """Number of a state in this process.  ProcessGone leaves all as it was."""
        if warm is not self._warm:
            self._warm = warm
            self._history.numbers.clear()
        try:
            return self._history.number(state, lambda before, tactic: self._redo(warm, before, tactic))
        except ProcessGone:
            raise
        except (ProcessEnded, Overrun) as error:
            lost = f"{self._theorem.name}: lost on the way to state {state}"
            raise LeanCrash(f"{lost}: {as_lean_error(error).error}") from error

    def _redo(self, warm: ReplState, before: int, tactic: str) -> tuple[int, tuple[str, ...]]:
        theorem = self._theorem
        if before == NOWHERE:
            env = warm.environment(theorem.before, self._stop)
            request = {"cmd": "start", "env": env, "statement": theorem.statement, "name": theorem.name}
            answer = warm.ask(request, PREPARING, self._stop)
            if "error" in answer:
                raise NotElaborated(answer["error"])
        else:
            # it went well once, perhaps with more heartbeats than are usual: 0 is no limit
            request = {"cmd": "tac", "sid": before, "tactic": tactic, "timeout_ms": int(1000 * REPLAY), "heartbeats": 0}
            answer = warm.ask(request, REPLAY + 10, self._stop)
        return answer.get("sid", NOWHERE), tuple(answer.get("goals", [f"error: {answer.get('error')}"]))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            if self._warm is not None:
                self._warm.freed.append([*self._history.numbers.values()])
            self._slot.leave()


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
        most = memory * MEGABYTE
        self._slots, self._clean = ([ReplSlot(command, starter, most) for _ in range(size)] for _ in range(2))
        self._has_sessions = False

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[ReplSession, TacticState]:
        session = ReplSession(theorem, self._enter_slot(self._slots), stop)
        try:
            return session, session.begin()
        except BaseException:
            session.close()
            raise

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """The lines of the script as they would stand after `by`."""

        def run(warm: ReplState) -> dict[str, Any]:
            warm.tidy(True, stop)  # nothing that a check makes is for another
            env = warm.environment(theorem.before, stop)
            named = {"cmd": "check", "env": env, "statement": theorem.statement, "name": theorem.name}
            begun()
            request = {**named, "script": "\n".join(script), "timeout_ms": milliseconds(CHECK)}
            return warm.ask(request, CHECK + OVERRUN_GRACE, stop)

        slot = self._enter_slot(self._clean)
        try:
            return answer_error(slot.use(run, stop))
        except NotElaborated as error:
            return LeanError(str(error), "elab")
        except (ProcessEnded, Overrun) as error:
            return as_lean_error(error)
        finally:
            slot.leave()

    def _enter_slot(self, slots: Sequence[ReplSlot]) -> ReplSlot:
        """Enter the slot with the fewest sessions; of equals the first, so that no more start than are needed."""
        with self._lock:
            self._has_sessions |= slots is self._slots
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
