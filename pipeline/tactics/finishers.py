"""Tactics that prove a goal or nothing: tried on every goal, the cheap ones first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.tactics import syntax
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, QUICK, Move

FIRST = (("rfl", 0.3), ("omega", QUICK), ("simp_all; done", QUICK), ("grind -verbose", QUICK))

HUGE = re.compile(r"\^ (\d{5,}|\([^()]*\^)")


def first(goal: PrintedGoal) -> Iterator[Move]:
    """Before any other move."""
    if HUGE.search(goal.said):
        return  # to compute it would take all there is
    general = goal.connective in ("∀", "→")  # the others are tried when all is introduced
    closed = not goal.variables and not goal.facts
    if closed:
        yield Move(0.0, "finishers", "decide", 0.4, closing=True)
        yield Move(0.0, "finishers", "decide +kernel", MIDDLE, closing=True)
    for tactic, budget in () if general else FIRST:
        if useful(tactic, goal):
            yield Move(0.0, "finishers", bracketed(tactic), budget, closing=True)


def useful(tactic: str, goal: PrintedGoal) -> bool:
    """Whether it is about such goals at all."""
    if tactic == "rfl":
        return goal.connective in ("=", "↔", "≤", "")
    return tactic != "omega" or "Nat" in goal.text or "Int" in goal.text or bool(goal.numerals)


def bracketed(tactic: str) -> str:
    return f"({tactic})" if ";" in tactic else tactic


def propose(goal: PrintedGoal) -> Iterator[Move]:
    """The same at length, where the first ones did not do."""
    yield Move(0.9, "finishers", "(simp_all +arith; done)", MIDDLE, closing=True)
    yield Move(1.5, "finishers", "grind -verbose +suggestions", MIDDLE, closing=True)
    yield Move(1.2, "finishers", "grind -verbose (splits := 20) (ematch := 10) (gen := 12)", 4.0, closing=True)
    yield Move(2.0, "finishers", "grind -verbose +splitIndPred", MIDDLE, closing=True)
    yield Move(2.6, "finishers", "grind -verbose (splits := 40) (ematch := 20) (gen := 20)", 2 * LONG, closing=True)
    if goal.target == "False":
        yield Move(0.3, "finishers", "contradiction", QUICK, closing=True)
    if goal.variables and not goal.facts and all(is_finite(one.type) for one in goal.variables):
        yield Move(0.2, "finishers", "decide +revert", MIDDLE, closing=True)


def is_finite(kind: str) -> bool:
    return syntax.bare(kind) == "Bool" or kind.startswith("Fin ")
