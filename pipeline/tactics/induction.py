"""Induction on what the goal speaks of: plain, with the other variables free, and strong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.tactics import arithmetic, syntax
from pipeline.tactics.bounds import limits
from pipeline.tactics.goal import Hypothesis, PrintedGoal
from pipeline.tactics.move import SHORT, Move
from pipeline.tactics.scripts import chain, listed

RECURSIVE = ("Nat", "List", "Option")


def propose(goal: PrintedGoal) -> Iterator[Move]:
    recursive = [one for one in goal.variables if is_recursive(one) and syntax.mentions(one.name, goal.said)]
    for place, one in enumerate(sorted(recursive, key=lambda one: not syntax.mentions(one.name, goal.target))):
        said_last = 0.0 if syntax.mentions(one.name, goal.target) else 0.5
        if one.type == "Nat":
            yield from from_bound(one, goal)
            yield from in_pairs(one, goal)
        yield from about(one, others(one, goal), 0.12 * place + said_last)


def from_bound(one: Hypothesis, goal: PrintedGoal) -> Iterator[Move]:
    """`3 ≤ n`: n is 3 + k, and the induction is on k."""
    below = [(fact, low) for fact in arithmetic.known(goal) for low in limits(fact.relation, one.name)[0] if low > 0]
    for fact, low in below[:1]:
        k = goal.fresh("k")[0]
        shifted = f"obtain ⟨{k}, rfl⟩ : ∃ {k}, {one.name} = {k} + {low} := ⟨{one.name} - {low}, by omega⟩"
        yield Move(0.55, "induction", chain([shifted, f"clear {fact.name}", f"induction {k}"]), SHORT)


def in_pairs(one: Hypothesis, goal: PrintedGoal) -> Iterator[Move]:
    """What is given by the two before: the claim for n and n + 1 at once."""
    if "+ 2)" in goal.said and not any(syntax.mentions(one.name, fact.type) for fact in goal.facts):
        following = re.sub(rf"(?<![\w.']){re.escape(one.name)}(?![\w'])", f"({one.name} + 1)", goal.target)
        name = goal.fresh("hpair")[0]
        both = f"suffices {name} : ({goal.target}) ∧ ({following}) from {name}.1"
        yield Move(0.65, "induction", chain([both, f"induction {one.name}"]), SHORT)


def is_recursive(one: Hypothesis) -> bool:
    return one.type.split(" ")[0] in RECURSIVE and "→" not in one.type and not one.value


def others(one: Hypothesis, goal: PrintedGoal) -> list[str]:
    """What the claim may speak of anew at each step."""
    plain = [other for other in goal.variables if "→" not in other.type]
    changing = [other.name for other in plain if other.type.split(" ")[0] in (*RECURSIVE, "Int")]
    return [name for name in changing if name != one.name and syntax.mentions(name, goal.said)]


def about(one: Hypothesis, free: list[str], cost: float) -> Iterator[Move]:
    yield Move(0.6 + cost, "induction", f"induction {one.name}", SHORT)
    if free:
        yield Move(1.0 + cost, "induction", f"induction {one.name} generalizing {listed(free)}", SHORT)
    if one.type == "Nat":
        yield Move(1.3 + cost, "induction", f"induction {one.name} using Nat.strongRecOn", SHORT)
        if free:
            strong = f"induction {one.name} using Nat.strongRecOn generalizing {listed(free)}"
            yield Move(1.6 + cost, "induction", strong, SHORT)
