"""What is known of the terms of a goal gathered at once, then omega or grind: no search could put it together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations

from pipeline.tactics import arithmetic, numbers, syntax, terms
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, Move
from pipeline.tactics.scripts import chain
from pipeline.tactics.terms import Leaf, Number, Operation, Relation, Term, shown

MOST = 12
CLOSE = "first | omega | grind -verbose"


def propose(goal: PrintedGoal) -> Iterator[Move]:
    facts = [*instances(goal), *multiples(goal), *powers(goal)]
    products = [*multiplied(goal)]
    if facts:
        yield Move(0.5, "gathering", gathered(facts, goal), LONG, closing=True)
        spread = "simp only [Nat.pow_succ, Nat.mul_add, Nat.add_mul, ← Nat.add_assoc] at *"
        yield Move(0.9, "gathering", gathered([*facts], goal, spread), LONG, closing=True)
    if products:
        yield Move(1.0, "gathering", gathered([*facts, *products], goal), 2 * LONG, closing=True)
    yield from apart(goal)


def gathered(facts: list[str], goal: PrintedGoal, last: str = "skip") -> str:
    names = goal.fresh("hall", len(facts))
    lines = [f"try have {name} := {fact}" for name, fact in zip(names, facts, strict=True)]
    return chain([*lines[:MOST], f"try {last}", CLOSE])


def instances(goal: PrintedGoal) -> Iterator[str]:
    """What holds for all, at the places where the goal names the function: there and one before."""
    for fact in goal.facts:
        if syntax.connective(fact.type) == "∀" and len(syntax.bound_variables(fact.type)[0]) == 1:
            for function in dict.fromkeys(re.findall(r"(?<![\w.])([^\W\d]\w*) \(?\w", fact.type)):
                if "→" in goal.types.get(function, ""):
                    yield from (f"{fact.name} {at}" for at in list(dict.fromkeys(arguments(function, goal)))[:4])


def arguments(function: str, goal: PrintedGoal) -> Iterator[str]:
    for leaf in [one.name for one in arithmetic.subterms(goal) if isinstance(one, Leaf)]:
        head, _, argument = leaf.partition(" ")
        if head == function and argument:
            match terms.read_term(argument):
                case Operation("+", (before, Number(1))):
                    yield shown(before, tight=True)
                case Operation("+", (before, Number(number))):
                    yield f"({shown(before)} + {number - 1})"
            yield argument


def powers(goal: PrintedGoal) -> Iterator[str]:
    """That they are positive, larger than their exponents, and what the next one is."""
    for term in [one for one in arithmetic.subterms(goal) if isinstance(one, Operation) and one.sign == "^"][:4]:
        base, exponent = term.arguments
        owner = "Int" if arithmetic.is_integral(base, goal) else "Nat"
        b, e = shown(base, tight=True), shown(exponent, tight=True)
        if terms.leaves(exponent):
            yield f"(show 0 < ({b} : {owner}) ^ {e} from {owner}.pow_pos (by omega))"
            yield from larger(base, b, e, owner)
            match exponent:
                case Operation("+", (before, Number(number))):
                    less = shown(before, tight=True) if number == 1 else f"({shown(before)} + {number - 1})"
                    yield f"(show ({b} : {owner}) ^ {e} = {b} ^ {less} * {b} from {owner}.pow_succ ..)"


def multiples(goal: PrintedGoal) -> Iterator[str]:
    """Powers of the same base whose exponents differ by a number: one is so many times the other."""
    found = [one for one in arithmetic.subterms(goal) if isinstance(one, Operation) and one.sign == "^"][:6]
    for one, other in permutations(found, 2):
        (base, exponent), (same, less) = one.arguments, other.arguments
        apart = numbers.difference(Relation("=", exponent, less), naturals=True)
        if base == same and terms.leaves(exponent) and set(apart) == {()} and apart[()] > 0:
            owner = "Int" if arithmetic.is_integral(base, goal) else "Nat"
            b, at = shown(base, tight=True), shown(exponent)
            why = f"by rw [show {at} = {shown(less)} + {apart[()]} by omega, {owner}.pow_add]"
            yield f"(show {shown(one)} = {shown(other)} * {b} ^ {apart[()]} from {why})"


def larger(base: Term, b: str, e: str, owner: str) -> Iterator[str]:
    if owner == "Nat" and isinstance(base, Number) and base.value > 1:
        yield f"(show {e} < ({b} : Nat) ^ {e} from Nat.lt_pow_self (by omega))"


def multiplied(goal: PrintedGoal) -> Iterator[str]:
    """Inequalities times each other, and squares of differences."""
    if not arithmetic.nonlinear(goal):
        return
    orders = [one for one in arithmetic.known(goal) if one.relation.sign in "≤<≥>" and one.relation.holds]
    integral = bool(goal.of_type("Int"))
    for one, other in combinations(orders[:4], 2):
        yield from product_of(one.name, other.name, integral=integral)
    for one in orders[:3]:
        yield from product_of(one.name, one.name, integral=integral)
    integers = goal.of_type("Int")
    differences = [f"({a} - {b})" for a, b in combinations(integers[:3], 2)]
    for term in [*crossed(integers), *differences, *integers[:3]]:
        yield f"(show 0 ≤ {term} * {term} by (rcases Int.le_total 0 {term} with hs | hs; {nonneg()}))"


def crossed(integers: list[str]) -> Iterator[str]:
    """Of four, the differences of products of two and two."""
    if len(integers) == 4:
        a, b, c, d = integers
        yield from (f"({a} * {d} - {b} * {c})", f"({a} * {c} - {b} * {d})", f"({a} * {b} - {c} * {d})")


def nonneg() -> str:
    return "(exact Int.mul_nonneg hs hs); (exact Int.mul_nonneg_of_nonpos_of_nonpos hs hs)"


def product_of(one: str, other: str, *, integral: bool) -> Iterator[str]:
    if integral:
        yield f"Int.mul_nonneg (Int.sub_nonneg_of_le {one}) (Int.sub_nonneg_of_le {other})"
        yield f"Int.mul_pos (Int.sub_pos_of_lt {one}) (Int.sub_pos_of_lt {other})"
    else:
        yield f"Nat.mul_le_mul {one} {other}"


def apart(goal: PrintedGoal) -> Iterator[Move]:
    """Of two naturals the larger is the smaller and something."""
    if not arithmetic.nonlinear(goal) or goal.connective not in ("≤", "<", "≥", ">", "="):
        return
    for place, (a, b) in enumerate([*combinations(goal.of_type("Nat"), 2)][:3]):
        h, d = goal.fresh("hle")[0], goal.fresh("d")[0]
        either = f"rcases Nat.le_total {a} {b} with {h} | {h}"
        substituted = f"(obtain ⟨{d}, rfl⟩ := Nat.exists_eq_add_of_le {h}; clear {h})"
        yield Move(1.1 + 0.1 * place, "gathering", f"({either} <;> {substituted} <;> ({CLOSE}))", LONG, closing=True)
        yield Move(1.6 + 0.1 * place, "gathering", f"({either} <;> {substituted})", MIDDLE)
