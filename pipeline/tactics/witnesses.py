"""Values for `∃`: what stands in the goal, small numbers, and numbers found by trying."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, product

from pipeline.tactics import syntax, terms
from pipeline.tactics.goal import PrintedGoal, is_universe
from pipeline.tactics.move import SHORT, Move
from pipeline.tactics.numbers import Unknown, true
from pipeline.tactics.terms import Relation

TRIED = 40  # for each variable
AT_MOST = 30_000  # choices tried in all


def propose(goal: PrintedGoal) -> Iterator[Move]:
    if goal.connective != "∃":
        return
    bound, body = syntax.bound_variables(goal.target)
    for found in islice(solutions(bound, body), 2):
        yield Move(0.05, "witnesses", f"exact ⟨{', '.join(map(str, found))}, by decide⟩", SHORT, closing=True)
    for place, one in enumerate(dict.fromkeys(candidates(goal, body))):
        yield Move(0.6 + 0.07 * place, "witnesses", f"refine ⟨{one}, ?_⟩", SHORT)


def solutions(bound: list[str], body: str) -> Iterator[tuple[int, ...]]:
    """Naturals that make a closed statement true."""
    relations = [terms.read_relation(part) for part in syntax.parts(body, "∧")]
    if not relations or None in relations or not 0 < len(bound) <= 4:
        return
    reach = next(size for size in (TRIED, 25, 13, 8) if size ** len(bound) <= AT_MOST)
    for choice in product(range(reach), repeat=len(bound)):
        if all(one and at(one, dict(zip(bound, choice, strict=True))) for one in relations):
            yield choice


def at(relation: Relation, known: dict[str, int]) -> bool:
    try:
        return true(relation, known)
    except Unknown:
        return False


def candidates(goal: PrintedGoal, body: str) -> Iterator[str]:
    things = [one.name for one in goal.variables if not is_universe(one.type) and one.type != "Prop"]
    numbers = goal.of_type("Nat", "Int")
    yield from determined(goal, body)
    yield from things[:6]
    yield from (fact.name for fact in goal.facts[:3] if syntax.connective(fact.type) not in ("∀", "→", "=", "¬"))
    yield from applications(goal)
    yield from map(str, sorted({0, 1, 2, 3, *(number for number in goal.numerals if number <= 100)})[:8])
    yield from (f"{name} + 1" for name in numbers[:3])
    yield from (f"{a} {sign} {b}" for a, b in combinations(numbers[:3], 2) for sign in "+*")
    yield from (
        text for name in numbers[:2] for text in (f"2 * {name}", f"{name} - 1", f"{name} / 2", f"{name} * {name}")
    )
    yield from (f"{name} / {number}" for name in numbers[:2] for number in goal.numerals if 2 < number <= 100)
    yield from ("fun x => x", "fun _ => 0", "id")


def determined(goal: PrintedGoal, body: str) -> Iterator[str]:
    """`∃ x, x = t`: what one side says of the other."""
    variable = syntax.bound_variables(goal.target)[0][:1]
    for part in syntax.parts(body, "∧"):
        sides = syntax.parts(part, "=") if syntax.connective(part) == "=" else []
        for one, other in (sides, sides[::-1]) if len(sides) == 2 else ():
            if [one] == variable and not syntax.mentions(one, other):
                yield other


def applications(goal: PrintedGoal) -> Iterator[str]:
    """A function of the goal at a thing of the goal: `f a`."""
    things = [(one.name, one.type) for one in goal.variables]
    for name, kind in things:
        taken, *rest = syntax.parts(kind, "→")
        if len(rest) == 1 and rest[0] != "Prop":
            yield from (f"{name} {other}" for other, of in things if of == taken)
