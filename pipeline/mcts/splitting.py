"""What a tactic left of the goal that it was run on, told apart from goals that were open beside it."""

from __future__ import annotations

import re
from hashlib import sha256
from textwrap import indent

from pipeline.edge.lean.model import LeanError, ProofFinished, TacticResult, TacticState
from pipeline.tactics.goal import PrintedGoal

MOST = 12  # goals of one tactic
_UNKNOWN = re.compile(r"(?<!\w)\?\w")


class Refused(Exception):
    """Nothing came of the tactic; in a word that is the same in every Lean process."""


def left(before: TacticState, result: TacticResult, closing: bool) -> tuple[str, ...]:
    """The goals as Lean prints them.  `before`: the goal came first.  `closing`: it was to prove it at once."""
    goals, beside = _goals(result), before.goals[1:]
    new = goals[: len(goals) - len(beside)]
    if goals[len(new) :] != beside:
        raise Refused("beside")  # it changed goals that are not its own
    if new and closing:
        raise Refused("open")
    if len(new) > MOST:
        raise Refused("goals")
    if any(map(_UNKNOWN.search, new)):
        raise Refused("shared")  # what one of them finds out, another needs: they cannot be proved one by one
    return new


def _goals(result: TacticResult) -> tuple[str, ...]:
    match result:
        case TacticState(goals=goals):
            return goals
        case ProofFinished():
            return ()
        case LeanError(kind=kind):
            raise Refused(kind)
    raise Refused("given up")


def ran_out(result: TacticResult) -> bool:
    """Of work that it may do; by the clock it would run out again."""
    return isinstance(result, LeanError) and result.kind == "heartbeats"


def on_first(tactic: str, goals: int) -> str:
    """So that `done` and the like speak of the first goal only."""
    if goals == 1:
        return tactic
    return f"focus (\n{indent(tactic, '  ')}\n)" if "\n" in tactic else f"focus {tactic}"


def names(goal: PrintedGoal) -> str:
    """What its text calls things, in order, and what it says of them: goals alike in shape may use a name otherwise."""
    digest = sha256(goal.text.encode()).hexdigest()[:12]
    return " ".join([*(each.name for each in goal.hypotheses), f"#{digest}"])
