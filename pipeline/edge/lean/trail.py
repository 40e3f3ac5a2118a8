"""How the states of one theorem came about, so that they can be brought into another process."""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline.edge.lean.model import LeanCrash, NotElaborated, Stop, Theorem
from pipeline.edge.lean.process import Ended, Gone, Overrun
from pipeline.edge.lean.warm import PREPARING, Warm

REPLAY = 60.0  # seconds for a tactic that ended within its own time before: now the machine may be busier
_NUMBERED = re.compile(r"(\?[A-Za-z_.]*)\d+")


class Step(NamedTuple):
    """From which state, by which tactic, and the goals that this left; the first step is from nowhere."""

    before: int
    tactic: str
    goals: tuple[str, ...]


class Trail:
    """States are numbered here once for all; in each process they have other numbers."""

    def __init__(self, theorem: Theorem) -> None:
        self._theorem = theorem
        self._steps: list[Step] = []
        self._there: dict[int, int] = {}  # state -> its number in `_warm`
        self._warm: Warm | None = None

    def goals(self, state: int) -> tuple[str, ...]:
        return self._steps[state].goals

    def way(self, state: int) -> tuple[str, ...]:
        """What leads to it: the statement, and each tactic."""
        tactics = []
        while state:
            state, tactic, _ = self._steps[state]
            tactics.append(tactic)
        return (self._theorem.statement, *reversed(tactics))

    def add(self, step: Step, there: int) -> int:
        """The state that a step came to, which has the number `there` in the present process."""
        self._steps.append(step)
        self._there[len(self._steps) - 1] = there
        return len(self._steps) - 1

    def brought(self, warm: Warm, state: int, stop: Stop | None) -> int:
        """The number that a state has in this process.  Gone leaves all as it was."""
        if warm is not self._warm:
            self._warm = warm
            self._there.clear()
        if state not in self._there:
            try:
                self._replay(warm, state, stop)
            except Gone:
                raise
            except (Ended, Overrun) as error:
                raise LeanCrash(f"{self._theorem.name}: lost on the way to state {state}: {told(error)}") from error
        return self._there[state]

    def _replay(self, warm: Warm, state: int, stop: Stop | None) -> None:
        missing = []
        while state not in self._there and state:
            missing.append(state)
            state = self._steps[state].before
        if state not in self._there:
            self._start(warm, stop)
        for each in reversed(missing):
            before, tactic, _ = self._steps[each]
            request = {"cmd": "tac", "sid": self._there[before], "tactic": tactic, "timeout_ms": int(1000 * REPLAY)}
            answer = warm.ask(request, REPLAY + 10, stop)
            self._same(each, tuple(answer.get("goals", [f"error: {answer.get('error')}"])))
            self._there[each] = answer["sid"]

    def _start(self, warm: Warm, stop: Stop | None) -> None:
        theorem = self._theorem
        env = warm.environment(theorem.before, stop)
        request = {"cmd": "start", "env": env, "statement": theorem.statement, "name": theorem.name}
        answer = warm.ask(request, PREPARING, stop)
        if "error" in answer:
            raise NotElaborated(answer["error"])
        if not self._steps:
            self._steps.append(Step(-1, "", tuple(answer["goals"])))
        self._same(0, tuple(answer["goals"]))
        self._there[0] = answer["sid"]

    def _same(self, state: int, goals: tuple[str, ...]) -> None:
        """What Lean has not found out yet has a number in it, which may be another one each time."""
        was = self._steps[state].goals
        if goals != was and [*map(_plain, goals)] != [*map(_plain, was)]:
            raise LeanCrash(f"{self._theorem.name}: state {state} is {_pp(goals)} now; it was {_pp(was)}")

    def leave(self) -> None:
        """The process may forget all of it."""
        if self._warm is not None:
            self._warm.freed.append([*self._there.values()])


def told(error: Ended | Overrun) -> str:
    if isinstance(error, Overrun):
        return "it took too long, and the process was killed"
    return f"the process ended: {error}" if str(error) else "the process ended without a word"


def _plain(goal: str) -> str:
    return _NUMBERED.sub(r"\1", goal)


def _pp(goals: tuple[str, ...]) -> str:
    return "; ".join(goals) or "no goals"
