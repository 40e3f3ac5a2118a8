"""The rows of a bank as Lean sees them: what does not elaborate, is false, or stands there twice does not count."""

from __future__ import annotations

from pipeline.banks.refuting import introduced, refuted
from pipeline.edge.lean.model import Lean, LeanCrash, NotElaborated, TacticState, Theorem
from pipeline.errors import clipped
from pipeline.goals.bank import letters, unknown_letter
from pipeline.goals.model import Bank, Goal, Refusal
from pipeline.tactics.goal import Hypothesis


def checked(bank: Bank, lean: Lean) -> Bank:
    """The goals that count, with their keys.  Raises LeanStartError when there is no Lean to ask."""
    lean.open(Theorem("goal", "True"))[0].close()  # else every row would look wrong
    found: dict[str, Goal] = {}
    refused = [*bank.refused]
    for goal in bank.goals:
        key, why = _judged(goal, lean, found)
        if why:
            refused.append(Refusal(goal.line, goal.id, why))
        else:
            found[key] = goal.keyed(key)
    return Bank(tuple(found.values()), tuple(sorted(refused, key=lambda each: each.line)))


def _judged(goal: Goal, lean: Lean, above: dict[str, Goal]) -> tuple[str, str]:
    """Its key, and why it does not count."""
    theorem = Theorem("goal", goal.text, goal.context)
    try:
        key, state, variables = _read(theorem, lean)
    except NotElaborated as error:
        told = "".join(f"; {unknown_letter(letter)}" for letter in letters(str(error)))
        hint = told or "; write a proposition, and what it needs into `context`"
        return "", f"it does not elaborate: {_brief(error)}{hint}"
    except LeanCrash as error:
        return "", f"it ends the Lean that reads it: {_brief(error)}; write it smaller"
    if key in above:
        return key, f"it is the statement of line {above[key].line} ({above[key].id}); drop one of them"
    how = refuted(theorem, state, variables, lean)
    return key, f"it is false, {how}; mend it, or drop it" if how else ""


def _read(theorem: Theorem, lean: Lean) -> tuple[str, TacticState, tuple[Hypothesis, ...]]:
    """Its key, what is to be shown, and what it says "for all" of."""
    session, state = lean.open(theorem)
    try:
        return session.key(state), state, introduced(session, state)
    finally:
        session.close()


def _brief(error: Exception) -> str:
    """On one line."""
    return clipped(" ".join(str(error).split()))
