"""History of a session: its states, by numbers that stay; in each process they have others, and are made again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from pipeline.lean.model import LeanCrash, Theorem

_NUMBERED = re.compile(r"(\?[A-Za-z_.]*)\d+")
START = -1  # before the first state

# Runs a tactic in the present process, on the state of that number there, or states the theorem, where that is START.
# It gives the number and the goals of the state that this came to.
Redo = Callable[[int, str], tuple[int, tuple[str, ...]]]


class TacticStep(NamedTuple):
    """Step of a session: state before, tactic, and the goals it left; the first one is from START."""

    before: int
    tactic: str
    goals: tuple[str, ...] | None  # None: not made yet


class StateHistory:
    """`numbers`: state -> its number in the present process, as far as it is known there."""

    def __init__(self, theorem: Theorem) -> None:
        self._theorem = theorem
        self._steps = [TacticStep(START, "", None)]
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
        while missing[-1] not in self.numbers and missing[-1] != START:
            missing.append(self._steps[missing[-1]].before)
        for each in reversed(missing[:-1]):
            before, tactic, goals = self._steps[each]
            number, now = redo(self.numbers.get(before, START), tactic)
            # an unknown has a number in it, which may be another one each time
            if goals is not None and [*map(_without_numbers, now)] != [*map(_without_numbers, goals)]:
                was, is_now = ("; ".join(one) or "no goals" for one in (goals, now))
                raise LeanCrash(f"{self._theorem.name}: state {each} is {is_now} now; it was {was}")
            self._steps[each] = TacticStep(before, tactic, now if goals is None else goals)
            self.numbers[each] = number
        return self.numbers[state]


def _without_numbers(goal: str) -> str:
    return _NUMBERED.sub(r"\1", goal)
