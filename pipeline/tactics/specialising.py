"""What is said of all things, said of those in the goal; and a recurrence followed from number to number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from pipeline.tactics import syntax
from pipeline.tactics.goal import Hypothesis, PrintedGoal, is_universe
from pipeline.tactics.move import LONG, SHORT, Move
from pipeline.tactics.scripts import chain

LONGEST = 120  # steps of a recurrence


def propose(goal: PrintedGoal) -> Iterator[Move]:
    general = [fact for fact in goal.facts if syntax.connective(fact.type) == "∀"]
    for place, fact in enumerate(general):
        yield from instances(fact, goal, 1.1 + 0.05 * place)
        yield from followed(fact, goal)


def instances(fact: Hypothesis, goal: PrintedGoal, cost: float) -> Iterator[Move]:
    count = len(syntax.bound_variables(fact.type)[0])
    name = goal.fresh("hs")[0]
    one_each = dict.fromkeys(things(goal))
    choices = product(list(one_each)[: 9 if count == 1 else 4], repeat=min(count, 2))
    for place, choice in enumerate(choices):
        said = " ".join(choice)
        yield Move(cost + 0.06 * place, "specialising", f"have {name} := {fact.name} {said}", SHORT)


def things(goal: PrintedGoal) -> Iterator[str]:
    """Variables, numbers of the goal, functions at them."""
    named = [one for one in goal.variables if not is_universe(one.type)]
    yield from (one.name for one in named if "→" not in one.type and one.type != "Prop")
    numbers = {0, 1, *(number for number in goal.numerals if number <= 30)}
    if "Nat" in goal.text or "Int" in goal.text:
        yield from map(str, sorted(numbers)[:4])
        yield from (f"({name} + 1)" for name in goal.of_type("Nat")[:2])
    functions = [one.name for one in named if one.type.count("→") == 1 and not one.type.endswith("Prop")]
    yield from (f"({name} {of})" for name in functions[:2] for of in ["0", *goal.of_type("Nat", "Int")[:2]])


def followed(fact: Hypothesis, goal: PrintedGoal) -> Iterator[Move]:
    """`f (n + 1) = … f n …`: at every number between those at which the goal names f."""
    for function in dict.fromkeys(re.findall(r"(?<![\w.])([^\W\d]\w*) \(\w+ [+-] \d+\)", fact.type)):
        places = {int(at) for at in re.findall(rf"(?<![\w.]){function} (\d+)", goal.said)}
        steps = range(max(min(places, default=0) - 2, 0), max(places, default=0) + 2)
        if function in goal.types and places and len(steps) <= LONGEST:
            name = goal.fresh("hs")[0]
            given = f"(try simp at {name})"
            known = [f"(have {name} := {fact.name} {at}); {given}" for at in steps]
            yield Move(0.4, "specialising", chain([*known, "omega"]), 3 * LONG, closing=True)
            valued = [f"(have {name} := {fact.name} {at}); (try simp [*] at {name})" for at in steps]
            yield Move(
                0.7, "specialising", chain([*valued, "first | omega | simp_all | grind"]), 3 * LONG, closing=True
            )
