"""Cases on variables, on `if` and `match`, and on which of two numbers is the larger."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from pipeline.tactics import arithmetic, syntax
from pipeline.tactics.goal import PrintedGoal, result
from pipeline.tactics.move import QUICK, SHORT, Move
from pipeline.tactics.scripts import cases as apart
from pipeline.tactics.scripts import chain, within
from pipeline.tactics.terms import Leaf, Number, Relation, shown

COSTS = {"Bool": 0.3, "Nat": 0.8, "List": 0.8, "Option": 0.6, "Int": 1.5, "Fin": 1.5, "Prod": 0.4, "Sum": 0.6}


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, one in enumerate(goal.variables):
        kind = one.type.split(" ")[0]
        if "→" not in one.type and syntax.mentions(one.name, goal.said) and (kind in COSTS or "×" in one.type):
            yield Move(COSTS.get(kind, 0.4) + 0.1 * place, "cases", f"cases {one.name}", SHORT)
    if any(word in goal.target for word in ("if ", "match ")):
        yield Move(0.3, "cases", "split", SHORT)
    for fact in goal.facts:
        if any(word in fact.type for word in ("if ", "match ")):
            yield Move(0.4, "cases", f"split at {fact.name}", SHORT)
    yield from orders(goal)
    yield from remainders(goal)
    yield from values(goal)


def remainders(goal: PrintedGoal) -> Iterator[Move]:
    """Of a number by one that the goal multiplies with."""
    if "∃" in goal.target:
        for place, number in enumerate(dict.fromkeys(int(one) for one in re.findall(r"\b([2-5]) \*", goal.target))):
            for name in goal.of_type("Nat", "Int")[:2]:
                found = goal.fresh("hr")[0]
                split = chain([within(found, range(number), f"{name} % {number}"), apart(found, number)])
                yield Move(0.8 + 0.1 * place, "cases", split, SHORT)


def values(goal: PrintedGoal) -> Iterator[Move]:
    """Of a function that is true or false, at what the goal names it at."""
    for one in goal.variables:
        if result(one.type) == "Bool" and "→" in one.type:
            places = dict.fromkeys(re.findall(rf"(?<![\w.]){re.escape(one.name)} [\w.]+", goal.said))
            for place, value in enumerate(list(places)[:3]):
                yield Move(0.5 + 0.1 * place, "cases", f"cases {goal.fresh('hb')[0]} : {value}", SHORT)


def orders(goal: PrintedGoal) -> Iterator[Move]:
    cost = 1.0 if goal.connective in ("=", "≤", "<", "∨") else 1.6
    for kind in ("Nat", "Int"):
        pairs = combinations(sorted(goal.of_type(kind), key=lambda name: not syntax.mentions(name, goal.target)), 2)
        for place, (one, other) in enumerate([*pairs][:3]):
            name = goal.fresh("hlt")[0]
            which = f"rcases {kind}.lt_trichotomy {one} {other} with {name} | {name} | {name}"
            yield Move(cost + 0.2 * place, "cases", which, QUICK)
    match arithmetic.stated(goal)[-1:]:
        case ((arithmetic.TARGET, Relation("=", Leaf(one), Number() as number)),) if goal.types.get(one) == "Int":
            name = goal.fresh("hlt")[0]
            which = f"rcases Int.lt_trichotomy {one} {shown(number, tight=True)} with {name} | {name} | {name}"
            yield Move(0.7, "cases", which, QUICK)
