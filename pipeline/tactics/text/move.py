"""One tactic that may be tried, with what it costs, and pieces of tactic text that several families write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Seconds that a tactic may take.
QUICK, SHORT, MIDDLE, LONG = 0.5, 1.0, 2.5, 6.0


class TacticMove(NamedTuple):
    """`cost`: how far it may lead from the way, 0 for a move that cannot be wrong; `budget`: in seconds.

    `closing`: it proves the goal or is of no use, so that goals it leaves do not count. `family`: the row of
    `moves.FAMILIES` that proposed it, set there."""

    cost: float
    tactic: str
    budget: float = SHORT
    closing: bool = False
    family: str = ""


CLOSERS = "first | omega | (simp_all; done) | grind -verbose"


def chain(tactics: Iterable[str]) -> str:
    """Tactics one after another, as one tactic."""
    return "(" + "; ".join(f"({one})" for one in tactics) + ")"


def disjunction(propositions: Iterable[str]) -> str:
    return " ∨ ".join(propositions)


def case_split(name: str, count: int) -> str:
    """Take a disjunction apart; each case has the same name for what comes out."""
    return f"rcases {name} with {' | '.join([name] * count)}" if count > 1 else "skip"


def one_of_values(name: str, values: Iterable[int | str], what: str) -> str:
    """`have name : what = 0 ∨ what = 1 …`, which omega can see."""
    return f"have {name} : {disjunction(f'{what} = {number}' for number in values)} := by omega"


def divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def floor_root(number: int, degree: int) -> int:
    """The largest whole number whose power is not above `number`."""
    low, high = 0, 1
    while high**degree <= number:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= number else (low, middle)
    return low


def joined_names(names: Sequence[str]) -> str:
    return " ".join(names)
