"""Values for `∃`: terms of the goal, small numbers, numbers found by trying, and solutions of equations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, islice, product

from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.goal import PrintedGoal, is_universe
from pipeline.tactics.text.tactic import TacticMove, ranked
from pipeline.tactics.text.terms import Relation, is_true

REACHES = (3000, 150, 25, 13)  # how far is tried, by the number of variables
# By the type of `f x x`: a function that differs from `f x` at x, for every x.
DIFFERENT = {"Prop": "fun x => ¬ {0} x x", "Bool": "fun x => !({0} x x)", "Nat": "fun x => {0} x x + 1"}


def propose_witnesses(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective != "∃":
        return
    bound, body = syntax.bound_variables(goal.target)
    for found in islice(solutions(bound, body), 2):
        yield TacticMove(0.05, f"exact ⟨{', '.join(map(str, found))}, by decide⟩", closing=True)
    solved = dict.fromkeys(equation_witnesses(goal, bound, body))
    exact = (f"exact ⟨{one}, by first | omega | grind -verbose⟩" for one in solved)
    yield from ranked(0.15, 0.05, exact, closing=True)
    candidates = dict.fromkeys([*solved, *candidate_terms(goal)])
    yield from ranked(0.6, 0.07, (f"refine ⟨{one}, ?_⟩" for one in candidates))
    yield from division_moves(goal, bound, body)
    if "∀" in body and "∃" not in body:
        yield TacticMove(0.7, "apply Classical.axiomOfChoice")


def solutions(bound: list[str], body: str) -> Iterator[tuple[int, ...]]:
    """Naturals that make a closed statement true."""
    relations = [terms.read_relation(part) for part in syntax.split_at(body, "∧")]
    names = {name for one in relations if one for side in (one.left, one.right) for name in terms.leaves(side)}
    if None in relations or not 0 < len(bound) <= len(REACHES) or not names <= set(bound):
        return
    for choice in product(range(REACHES[len(bound) - 1]), repeat=len(bound)):
        if all(one and is_true(one, dict(zip(bound, choice, strict=True))) for one in relations):
            yield choice


def candidate_terms(goal: PrintedGoal) -> Iterator[str]:
    things = [one.name for one in goal.variables if not is_universe(one.type) and one.type != "Prop"]
    naturals = goal.of_type("Nat", "Int")
    yield from things[:6]
    yield from (fact.name for fact in goal.facts[:3] if syntax.connective(fact.type) not in ("∀", "→", "=", "¬"))
    yield from function_values(goal)
    yield from map(str, sorted({0, 1, 2, 3, *(number for number in goal.numerals if number <= 100)})[:8])
    yield from (f"{name} + 1" for name in naturals[:3])
    yield from (f"{a} {sign} {b}" for a, b in combinations(naturals[:3], 2) for sign in "+*")
    yield from (text for name in naturals[:2] for text in (f"2 * {name}", f"{name} - 1", f"{name} * {name}"))
    yield from (f"{name} {sign} {number}" for name in naturals[:2] for number in goal.numerals[:3] for sign in "/%")
    yield from (f"{b} - {a}" for a, b in combinations(naturals[:3], 2))
    yield from ("fun x => x", "fun _ => 0", "id")


def equation_witnesses(goal: PrintedGoal, bound: list[str], body: str) -> Iterator[str]:
    """An equation with the variable in it once, solved for it."""
    for part in syntax.split_at(body, "∧"):
        sides = syntax.split_at(part, "=") if syntax.connective(part) == "=" else []
        for one, other in (sides, sides[::-1]) if len(sides) == 2 else ():
            if bound[:1] == [one] and not any(syntax.mentions(name, other) for name in bound):
                yield other
        if (relation := terms.read_relation(part)) and relation.sign == "=":
            yield from solve_for(relation, bound, goal)


def solve_for(relation: Relation, bound: list[str], goal: PrintedGoal) -> Iterator[str]:
    """`m = 2 * k + 1` for k: `(m - 1) / 2`; where all is divisible, divided.  Others that are bound are small."""
    whole = terms.difference(relation, arithmetic.relation_kind(relation, goal))
    scale = whole.pop(((bound[0], 1),), 0)
    for small in range(3 if len(bound) > 1 else 1):
        form: terms.Polynomial = {}
        for monomial, factor in whole.items():
            left = tuple((name, times) for name, times in monomial if name not in bound)
            worth = factor if left == monomial else factor * small
            form = terms.add_polynomials(form, {left: -worth if scale > 0 else worth})
        if not scale or any(syntax.mentions(bound[0], leaf) for leaf in terms.leaf_names(form)):
            continue
        if any(factor % scale for factor in form.values()):
            yield f"({terms.polynomial_text(form)}) / {abs(scale)}"
        else:
            yield terms.polynomial_text({monomial: factor // abs(scale) for monomial, factor in form.items()})


def division_moves(goal: PrintedGoal, bound: list[str], body: str) -> Iterator[TacticMove]:
    """`∃ k, n = 2 * k + 1` where `n % 2 = 1`."""
    relation = terms.read_relation(body)
    if len(bound) != 1 or relation is None or relation.sign != "=":
        return
    for side, other in ((relation.left, relation.right), (relation.right, relation.left)):
        linear = terms.linear_form(other)
        if linear and list(linear[0]) == bound and (of := linear[0][bound[0]]) > 1 and 0 <= linear[1] < of:
            whole = terms.term_text(side, tight=True)
            claim = f"{goal.fresh('hm')[0]} : {whole} % {of} = {linear[1]}"
            yield TacticMove(0.3, f"((suffices {claim} from ⟨{whole} / {of}, by omega⟩))")


def function_values(goal: PrintedGoal) -> Iterator[str]:
    """A function of the goal at a thing of the goal: `f a`; then functions that differ from `f x` at x, for every x."""
    things = [(one.name, one.type) for one in goal.variables]
    for name, kind in things:
        taken, *rest = syntax.split_at(kind, "→")
        if len(rest) == 1 and rest[0] != "Prop":
            yield from (f"{name} {other}" for other, of in things if of == taken)
    for name, kind in things:
        match [re.sub(r"[()]", "", part) for part in syntax.split_at(kind, "→")]:
            case [first, second, value] if first == second and value in DIFFERENT:
                yield DIFFERENT[value].format(name)
