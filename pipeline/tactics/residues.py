"""Arithmetic modulo a number: by cases on the residues, with a modulus that is seen to decide the goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import NamedTuple

from pipeline.tactics import arithmetic, numbers, residue_proofs, syntax, terms
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, SHORT, Move
from pipeline.tactics.numbers import Polynomial
from pipeline.tactics.residue_proofs import Names, Side
from pipeline.tactics.scripts import cases, chain, either, within
from pipeline.tactics.terms import Number, Operation, Relation, Term, shown

TRIED = (*range(2, 17), 19, 20, 21, 24, 25, 27, 28, 32)
MOST_POINTS = 4000
MODULO = "Nat.pow_succ, Nat.pow_mod, Nat.mul_mod, Nat.add_mod, Int.pow_succ, Int.mul_emod, Int.add_emod, Int.sub_emod"


class Congruence(NamedTuple):
    """`form` modulo `modulus` is, or is not, 0."""

    form: Polynomial
    modulus: int
    holds: bool


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, modulus in enumerate(deciding(goal)):
        yield computed(goal, modulus, 0.05 + 0.1 * place)
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
    found: list[int] = []
    for modulus in tried:
        if len(found) < 2 and all(modulus % one for one in found) and decides(goal, modulus):
            found.append(modulus)
    return found


def decides(goal: PrintedGoal, modulus: int) -> bool:
    facts = [one for fact in arithmetic.known(goal) if (one := congruence(fact.relation, modulus, goal))]
    target = aims(goal, modulus)
    if target is None and goal.target != "False":
        return False
    leaves = names_in([*facts, *(target or [])])
    if not leaves or modulus ** len(leaves) > MOST_POINTS:
        return False
    points = (dict(zip(leaves, choice, strict=True)) for choice in product(range(modulus), repeat=len(leaves)))
    left = (point for point in points if all(meets(one, point) for one in facts))
    return all(any(meets(one, point) for one in target or []) for point in left)


def names_in(congruences: Iterable[Congruence]) -> list[str]:
    return sorted({name for one in congruences for name in numbers.names(one.form)})


def aims(goal: PrintedGoal, modulus: int) -> list[Congruence] | None:
    """What the target says modulo the number, its alternatives; None where it says more than that."""
    alternatives = [terms.read_relation(part) for part in syntax.parts(goal.target, "∨")]
    found = [congruence(uncut(one), modulus, goal, exact=True) if one else None for one in alternatives]
    return [one for one in found if one] if found and all(found) else None


def uncut(relation: Relation) -> Relation:
    """`m ∣ a - b`, for which it is enough that a and b are the same modulo m, of naturals too."""
    match relation:
        case Relation("∣", Number() as number, Operation("-", (left, right)), True):
            pass
        case Relation("=", Operation("%", (Operation("-", (left, right)), Number() as number)), Number(0), True):
            pass
        case _:
            return relation
    return Relation("=", Operation("%", (left, number)), Operation("%", (right, number)))


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


def residue(term: Term, number: int) -> Polynomial | None:
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


def computed(goal: PrintedGoal, modulus: int, cost: float) -> Move:
    """What the relations say modulo the number, computed for all residues of their leaves."""
    facts = [fact.relation for fact in arithmetic.known(goal) if congruence(fact.relation, modulus, goal)]
    targets = [uncut(one) for part in syntax.parts(goal.target, "∨") if (one := terms.read_relation(part))]
    relations = [*facts, *targets]
    sides = list(dict.fromkeys(side for one in relations for side in looked_at(one, goal)))
    sides = [side for side in sides if not isinstance(side.term, Number)]
    leaves = sorted({name for side in sides for name in opaque(side.term, side.kind)})
    names = named(goal, leaves)
    known = {name: "Int" if arithmetic.kind_of(name, goal) == "Int" else "Nat" for name in leaves}
    given = " ∧ ".join(f"({said(one, modulus, goal, names)})" for one in facts)
    aim = either(said(one, modulus, goal, names) for one in targets)
    claim = f"{given} → ({aim})" if given and aim else aim or f"¬({given})"
    tactic = residue_proofs.by_computation(sides, claim, modulus, known, names)
    return Move(cost, "residues", tactic, LONG + 0.001 * modulus ** len(leaves), closing=True)


def named(goal: PrintedGoal, leaves: list[str]) -> Names:
    found = zip(goal.fresh("k", len(leaves)), goal.fresh("hk", len(leaves)), strict=True)
    return Names(dict(zip(leaves, found, strict=True)), *(goal.fresh(stem)[0] for stem in ("law", "hside", "key")))


def looked_at(relation: Relation, goal: PrintedGoal) -> Iterator[Side]:
    kind = "Int" if arithmetic.integral(relation, goal) else "Nat"
    sides = [relation.right] if relation.sign == "∣" else [relation.left, relation.right]
    for side in sides:
        yield Side(inside(side), kind)


def inside(side: Term) -> Term:
    return side.arguments[0] if isinstance(side, Operation) and side.sign == "%" else side


def opaque(term: Term, kind: str) -> Iterator[str]:
    """What is not looked into: variables, applications, naturals subtracted."""
    match term:
        case Number():
            return
        case Operation("^", (base, Number())):
            yield from opaque(base, kind)
        case Operation(sign, arguments) if sign in ("+", "*", "neg") or (sign == "-" and kind == "Int"):
            for one in arguments:
                yield from opaque(one, kind)
        case _:
            yield shown(term)


def said(relation: Relation, modulus: int, goal: PrintedGoal, names: Names) -> str:
    """The relation, of residues."""
    kind = "Int" if arithmetic.integral(relation, goal) else "Nat"
    left, right = (residue_proofs.residual(Side(inside(side), kind), names) for side in (relation.left, relation.right))
    match relation:
        case Relation("∣", Number(number), _, holds):
            return f"{right} % {modulus} % {number} {'=' if holds else '≠'} 0"
        case Relation(sign, Operation("%", (_, Number(number))), _, holds):
            return f"{left} % {modulus} % {number} {'=' if holds == (sign == '=') else '≠'} {right} % {number}"
    return f"{left} % {modulus} = {right} % {modulus}"


def one_variable(goal: PrintedGoal, modulus: int) -> Iterator[Move]:
    name = goal.fresh("hr")[0]
    tail = f"(first | omega | (simp [{name}, {MODULO}]; done) | (simp_all [{MODULO}]; done) | grind -verbose)"
    for place, variable in enumerate(goal.of_type("Nat", "Int")[:3]):
        split = [within(name, range(modulus), f"{variable} % {modulus}"), cases(name, modulus)]
        yield Move(1.0 + 0.02 * modulus + 0.3 * place, "residues", f"{chain(split)} <;> {tail}", LONG, closing=True)
        if modulus <= 5:
            yield Move(2.0 + 0.3 * place, "residues", chain(split), SHORT)
