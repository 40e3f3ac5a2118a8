"""What a goal that is open is worth, between 0 and 1: how near it looks to being proved.

That a tactic applied is worth nothing.  What counts is what it left: what kind of goal, how long it is, and how many
there are beside it.  A model of values would be another function of the same type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.mcts.choices import demand
from pipeline.tactics.goal import PrintedGoal

# By the weakest sign of what is to be shown; an atom counts as the rest.
KINDS = {"∀": 0.8, "→": 0.8, "∧": 0.7, "↔": 0.6, "∨": 0.5, "∃": 0.4, "¬": 0.6, "≠": 0.6, "=": 0.7, "≤": 0.7, "<": 0.7}
REST = 0.6
ABSURD = 0.5  # `False`, which has to come from what is assumed
CLOSED = 0.9  # nothing varies: to be computed
LENGTH = 400.0  # characters: a goal so long is worth half of what a short one is
BESIDE = 0.95  # for each goal that is left beside it

Rewards = Callable[[PrintedGoal, int], float]


def printed(goal: PrintedGoal, goals: int) -> float:
    """kind / (1 + length / LENGTH) * BESIDE ** (goals - 1); `goals`: that the tactic left, this one among them."""
    return _kind(goal) / (1 + len(goal.text) / LENGTH) * BESIDE ** (goals - 1)


def _kind(goal: PrintedGoal) -> float:
    sign = goal.connective
    if not goal.hypotheses and sign not in ("∀", "→", "∃"):
        return CLOSED
    return ABSURD if goal.target == "False" else KINDS.get(sign, REST)


REWARDS: Mapping[str, Rewards] = {"printed": printed}
SEAMS = {"model": "a model that was trained on goals and on whether they were proved"}


def chosen(name: str) -> Rewards:
    demand("rewards", name, REWARDS, SEAMS)
    return REWARDS[name]
