"""Tactic moves, and the text of tactics and proof scripts.

A tactic works on the first goal of a state. The goals it left are separated from those that were open beside it, so
that each can be proved by itself. Both searches go by that: best-first search and Monte-Carlo tree search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import indent
from typing import NamedTuple, TypeVar

from pipeline.tactics.text.goal import PrintedGoal, new_names

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


def chain(tactics: Iterable[str]) -> str:
    """Tactics one after another, as one tactic."""
    return "(" + "; ".join(f"({one})" for one in tactics) + ")"


def disjunction(propositions: Iterable[str]) -> str:
    return " ∨ ".join(propositions)


def case_split(name: str, count: int) -> str:
    """Take a disjunction apart; each case has the same name for what comes out."""
    return f"rcases {name} with {' | '.join([name] * count)}" if count > 1 else "skip"


def remainder_split(name: str, what: str, modulus: int) -> str:
    """A case for each remainder of `what`."""
    return chain([one_of_values(name, range(modulus), f"{what} % {modulus}"), case_split(name, modulus)])


def one_of_values(name: str, values: Iterable[int | str], what: str) -> str:
    """`have name : what = 0 ∨ what = 1 …`, which omega can see."""
    return f"have {name} : {disjunction(f'{what} = {number}' for number in values)} := by omega"


def decide_below(claim: str, limits: Mapping[str, int], key: str, proofs: Iterable[str]) -> tuple[str, str]:
    """Let the kernel find the claim true for all naturals below their limits; the step, and the claim as a term.

    `proofs`: tactics, or terms of proofs, that each is below its limit."""
    computed, proof = f"decide ({claim})", key
    for name, limit in reversed([*limits.items()]):
        computed = f"(List.range {limit}).all (fun {name} => {computed})"
    for name, below in zip(limits, proofs, strict=True):
        proof = f"List.all_eq_true.mp ({proof}) {name} (List.mem_range.mpr {below})"
    return f"have {key} : ({computed}) = true := by decide +kernel", f"of_decide_eq_true ({proof})"


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


MOST_SUBGOALS = 12  # that one tactic may leave
RETRY_FACTOR = 5  # a tactic that ran out of time may run so many times as long
RETRY_UNTIL = 30.0  # seconds: what had so long has no other try
_UNKNOWN = re.compile(r"(?<!\w)\?\w")

N = TypeVar("N")


class FrontTactics(NamedTuple):
    """`rotation` brings a goal to the front, `prelude` names its hypotheses that have no name; each may be empty."""

    rotation: tuple[str, ...]
    prelude: tuple[str, ...]


def front_tactics(goal: PrintedGoal, place: int) -> FrontTactics:
    """Tactics that bring the goal at this place of its state to the front."""
    names = new_names(goal)
    return FrontTactics((f"rotate_left {place}",) if place else (), (f"rename_i {' '.join(names)}",) if names else ())


def in_sequence(tactics: Iterable[str]) -> str:
    """Several tactics as one."""
    return f"({'; '.join(tactics)})"


def as_block(script: Iterable[str]) -> str:
    """A script of several lines as one tactic."""
    return "(\n" + indent("\n".join(script), "  ") + "\n)"


def focus_first(tactic: str, goals: int) -> str:
    """Focus on the first goal, so that `done` and the like speak of no other."""
    if goals == 1:
        return tactic
    return f"focus {as_block([tactic])}" if "\n" in tactic else f"focus {tactic}"


class TacticRefused(Exception):
    """Error of a tactic of which nothing came; in a word that is the same in every Lean process."""


def goals_left(goals: Sequence[str], beside: Sequence[str], *, closing: bool) -> tuple[str, ...]:
    """The goals that a tactic left of the first one, as Lean prints them.

    `beside`: what was open besides. `closing`: the tactic was to prove the goal at once."""
    left = tuple(goals[: max(len(goals) - len(beside), 0)])
    if tuple(goals[len(left) :]) != tuple(beside):
        raise TacticRefused("beside")  # it changed goals that are not its own
    if left and closing:
        raise TacticRefused("open")
    if len(left) > MOST_SUBGOALS:
        raise TacticRefused("goals")
    if any(map(_UNKNOWN.search, left)):
        raise TacticRefused("shared")  # what one of them finds out, another needs: they cannot be proved one by one
    return left


# The lines of a goal's proof up to the goals that its tactic leaves, and those goals.
ProofStepOf = Callable[[N], tuple[Iterable[str], Sequence[N]]]


def script_lines(root: N, step: ProofStepOf[N]) -> list[str]:
    """A proof as a script: a line for each tactic, a block for each of several goals. A proof may be of any depth."""
    script: list[str] = []
    todo: list[tuple[N, str, bool]] = [(root, "", False)]
    while todo:
        node, margin, is_block = todo.pop()
        texts, children = step(node)
        inner = margin + "  " if is_block else margin
        lines = [line for text in texts for line in text.split("\n")]
        script += [inner + line for line in lines]
        if is_block:
            script[-len(lines)] = f"{margin}· {lines[0]}"
        todo += [(child, inner, len(children) > 1) for child in reversed(children)]
    return script
