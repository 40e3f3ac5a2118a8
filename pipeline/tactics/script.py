"""Tactics run on a state, and proofs as scripts.

A tactic works on the first goal of a state. The goals it left are separated from those that were open beside it, so
that each can be proved by itself. Both searches go by that: best-first search and Monte-Carlo tree search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import TypeVar

from pipeline.tactics.text.goal import PrintedGoal, new_names

MOST_SUBGOALS = 12  # that one tactic may leave
RETRY_FACTOR = 5  # a tactic that ran out of time may run so many times as long
RETRY_UNTIL = 30.0  # seconds: what had so long has no other try
_UNKNOWN = re.compile(r"(?<!\w)\?\w")

N = TypeVar("N")


def front_tactics(goal: PrintedGoal, place: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tactics that bring the goal at this place of its state to the front, and those that name what has none."""
    names = new_names(goal)
    return (f"rotate_left {place}",) if place else (), (f"rename_i {' '.join(names)}",) if names else ()


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
