"""Arithmetic modulo a number: by cases on the residues, with a modulus that is seen to decide the goal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from pipeline.tactics import arithmetic, numbers, residue_proofs, syntax, terms
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, SHORT, Move
from pipeline.tactics.numbers import Polynomial
from pipeline.tactics.scripts import cases, chain, within
from pipeline.tactics.terms import Number, Operation, Relation

TRIED = (*range(2, 17), 19, 20, 21, 24, 25, 27, 28, 32)
MOST_CASES = 400
MODULO = "Nat.pow_succ, Nat.pow_mod, Nat.mul_mod, Nat.add_mod, Int.pow_succ, Int.mul_emod, Int.add_emod, Int.sub_emod"


class Congruence(NamedTuple):
    """`form` modulo `modulus` is, or is not, 0."""

    form: Polynomial
    modulus: int
    holds: bool


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, modulus in enumerate(deciding(goal)):
        yield from by_cases(goal, modulus, 0.1 + 0.15 * place)
    for modulus in [one for one in arithmetic.moduli(goal) if one <= 30][:3]:
        yield from one_variable(goal, modulus)
    if arithmetic.moduli(goal):
        yield Move(0.8, "residues", f"(simp [*, {MODULO}]; done)", MIDDLE, closing=True)
        yield Move(0.9, "residues", "(simp [Nat.pow_succ, Int.pow_succ] at *; omega)", MIDDLE, closing=True)
    if goal.connective == "∣":
        yield Move(1.2, "residues", "apply Nat.dvd_of_mod_eq_zero", SHORT)
        yield Move(1.2, "residues", "apply Int.dvd_of_emod_eq_zero", SHORT)


def deciding(goal: PrintedGoal) -> list[int]:
    """Moduli for which all residues that the facts allow make the target true."""
    given = arithmetic.moduli(goal)
    nonlinear = arithmetic.nonlinear(goal)
    tried = dict.fromkeys([*(one for one in given if one <= 60), *(TRIED if nonlinear else ())])
    return [modulus for modulus in tried if decides(goal, modulus)][:2]


def decides(goal: PrintedGoal, modulus: int) -> bool:
    facts = [one for fact in arithmetic.known(goal) if (one := congruence(fact.relation, modulus, goal))]
    target = aims(goal, modulus)
    forms = [one.form for one in [*facts, *(target or [])]]
    leaves = sorted({name for form in forms for name in numbers.names(form)})
    if (target is None and goal.target != "False") or not leaves or modulus ** len(leaves) > MOST_CASES:
        return False
    points = (dict(zip(leaves, choice, strict=True)) for choice in product(range(modulus), repeat=len(leaves)))
    left = [point for point in points if all(meets(one, point) for one in facts)]
    return all(any(meets(one, point) for one in target or []) for point in left)


def aims(goal: PrintedGoal, modulus: int) -> list[Congruence] | None:
    """What the target says modulo the number, its alternatives; None where it says more than that."""
    alternatives = [terms.read_relation(part) for part in syntax.parts(goal.target, "∨")]
    found = [congruence(one, modulus, goal, exact=True) if one else None for one in alternatives]
    return [one for one in found if one] if found and all(found) else None


def congruence(relation: Relation, modulus: int, goal: PrintedGoal, *, exact: bool = False) -> Congruence | None:
    """What follows from a relation modulo the number; `exact`: only what is the same as it."""
    naturals = not arithmetic.integral(relation, goal)
    match relation:
        case Relation("∣", Number(number), right, holds) if number > 1 and modulus % number == 0:
            return Congruence(numbers.polynomial(right, naturals=naturals), number, holds)
        case Relation("=" | "≠" as sign, Operation("%", (inside, Number(number))), right) if (
            number > 1 and modulus % number == 0 and (reduced := residue(right, number)) is not None
        ):
            form = numbers.added(numbers.polynomial(inside, naturals=naturals), reduced, -1)
            return Congruence(form, number, relation.holds == (sign == "="))
        case Relation("=", _, _, True) if not exact:
            return Congruence(numbers.difference(relation, naturals=naturals), modulus, holds=True)
    return None


def residue(term: terms.Term, number: int) -> Polynomial | None:
    """The other side of `x % 7 = …`: a number, or something modulo the same."""
    match term:
        case Number(value) if 0 <= value < number:
            return {(): value} if value else {}
        case Operation("%", (inside, Number(other))) if other == number:
            return numbers.polynomial(inside)
    return None


def meets(one: Congruence, point: dict[str, int]) -> bool:
    total = 0
    for monomial, factor in one.form.items():
        worth = factor
        for name, times in monomial:
            worth = worth * pow(point[name], times, one.modulus) % one.modulus
        total += worth
    return (total % one.modulus == 0) == one.holds


def by_cases(goal: PrintedGoal, modulus: int, cost: float) -> Iterator[Move]:
    """All residues of all leaves, and in each case the residues of all products that occur."""
    leaves = involved(goal)
    names = goal.fresh("hr", len(leaves))
    split = [within(name, range(modulus), f"{leaf} % {modulus}") for name, leaf in zip(names, leaves, strict=True)]
    apart = " <;> ".join(f"({cases(name, modulus)})" for name in names)
    count = modulus ** len(leaves)
    tail = f"(first | omega | (simp [*, {MODULO}]; done) | (simp_all [{MODULO}]; done) | grind -verbose)"
    known = dict(zip(leaves, names, strict=True))
    computed = "; ".join([*residue_proofs.worked_out(goal, modulus, known), "omega"])
    budget = MIDDLE + 0.15 * count
    yield Move(cost, "residues", chain([*split, f"{apart} <;> ({computed})"]), budget, closing=True)
    yield Move(cost + 0.3, "residues", chain([*split, f"{apart} <;> {tail}"]), budget, closing=True)


def involved(goal: PrintedGoal) -> list[str]:
    """The leaves of what is said, in the way that `decides` counts them."""
    forms = [form for one in arithmetic.stated(goal) for form in polynomials(one.relation, goal)]
    forms += [
        form
        for part in syntax.parts(goal.target, "∨")
        if (one := terms.read_relation(part))
        for form in polynomials(one, goal)
    ]
    return sorted({name for form in forms for name in numbers.names(form)})


def polynomials(relation: Relation, goal: PrintedGoal) -> Iterator[Polynomial]:
    naturals = not arithmetic.integral(relation, goal)
    for side in (relation.left, relation.right):
        inside = side.arguments[0] if isinstance(side, Operation) and side.sign == "%" else side
        yield numbers.polynomial(inside, naturals=naturals)


def one_variable(goal: PrintedGoal, modulus: int) -> Iterator[Move]:
    name = goal.fresh("hr")[0]
    tail = f"(first | omega | (simp [{name}, {MODULO}]; done) | (simp_all [{MODULO}]; done) | grind -verbose)"
    for place, variable in enumerate(goal.of_type("Nat", "Int")[:3]):
        split = [within(name, range(modulus), f"{variable} % {modulus}"), cases(name, modulus)]
        yield Move(1.0 + 0.02 * modulus + 0.3 * place, "residues", f"{chain(split)} <;> {tail}", LONG, closing=True)
        if modulus <= 5:
            yield Move(2.0 + 0.3 * place, "residues", chain(split), SHORT)
