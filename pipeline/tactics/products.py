"""Facts multiplied: inequalities with each other and with what is positive, squares that are not negative."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.arithmetic import Stated
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, SHORT, Move
from pipeline.tactics.scripts import chain
from pipeline.tactics.terms import Operation
from pipeline.tactics.witnesses import text

CLOSE = "first | omega | grind -verbose"


def propose(goal: PrintedGoal) -> Iterator[Move]:
    if "*" not in goal.said and "^" not in goal.said:
        return
    naturals, integers = goal.of_type("Nat"), goal.of_type("Int")
    yield from monotone(goal, naturals, integers)
    yield from squares(goal, integers)
    yield from pairs(goal, bool(naturals), bool(integers))
    yield from cancelled(goal)
    yield from shared(goal)
    yield from without_powers(goal)


def monotone(goal: PrintedGoal, naturals: list[str], integers: list[str]) -> Iterator[Move]:
    """x ≤ x * y where y is positive."""
    name = goal.fresh("hq")[0]
    positive = "by first | omega | (apply Nat.pos_of_ne_zero; intro hz; subst hz; simp_all)"
    for one, other in [*permutations(naturals, 2)][:6]:
        told = f"have {name} : {one} * 1 ≤ {one} * {other} := Nat.mul_le_mul_left {one} ({positive})"
        yield Move(0.9, "products", told, SHORT)
    for one, other in [*permutations(integers, 2)][:6]:
        told = f"have {name} : {one} * 1 ≤ {one} * {other} := Int.mul_le_mul_of_nonneg_left (by omega) (by omega)"
        yield Move(1.2, "products", told, SHORT)


def squares(goal: PrintedGoal, integers: list[str]) -> Iterator[Move]:
    """Squares of differences, of sums, of the variables themselves."""
    terms = [*integers[:3], *(f"({a} - {b})" for a, b in combinations(integers[:4], 2))]
    terms += [f"({a} + {b})" for a, b in combinations(integers[:2], 2)]
    terms += [f"({a} - {number})" for a in integers[:1] for number in goal.numerals[:3] if number]
    if terms:
        names = goal.fresh("hq", len(terms))
        lines = [
            f"have {name} : 0 ≤ {term} * {term} := by {square(term)}" for name, term in zip(names, terms, strict=True)
        ]
        yield Move(0.8, "products", chain([*lines, CLOSE]), LONG, closing=True)


def square(term: str) -> str:
    signs = f"rcases Int.le_total 0 ({term}) with hs | hs"
    return f"({signs}; (exact Int.mul_nonneg hs hs); (exact Int.mul_nonneg_of_nonpos_of_nonpos hs hs))"


def pairs(goal: PrintedGoal, naturals: bool, integers: bool) -> Iterator[Move]:
    orders = [one for one in arithmetic.known(goal) if one.relation.sign in ("≤", "<", "≥", ">") and one.relation.holds]
    name = goal.fresh("hq")[0]
    for one, other in [*combinations_with_replacement(orders, 2)][:6]:
        for cost, fact in multiplied(one, other, naturals=naturals, integers=integers):
            yield Move(cost, "products", chain([f"have {name} := {fact}", CLOSE]), MIDDLE, closing=True)
    for one in orders[:3]:
        for variable in goal.of_type("Nat")[:3]:
            yield Move(1.5, "products", f"have {name} := Nat.mul_le_mul_left {variable} {one.name}", SHORT)
            strictly = f"have {name} := Nat.mul_lt_mul_of_pos_left {one.name} (show 0 < {variable} by omega)"
            if one.relation.sign in "<>":
                yield Move(1.0, "products", strictly, SHORT)


def multiplied(one: Stated, other: Stated, *, naturals: bool, integers: bool) -> Iterator[tuple[float, str]]:
    if naturals:
        yield 1.7, f"Nat.mul_le_mul {one.name} {other.name}"
    if integers:
        differences = f"(Int.sub_nonneg_of_le {one.name}) (Int.sub_nonneg_of_le {other.name})"
        yield 1.7, f"Int.mul_nonneg {differences}"
        yield 1.8, f"Int.mul_pos (Int.sub_pos_of_lt {one.name}) (Int.sub_pos_of_lt {other.name})"


def shared(goal: PrintedGoal) -> Iterator[Move]:
    """A variable that every term of an equation has as a factor, taken out of all of them."""
    for one in arithmetic.equations(goal):
        integral = arithmetic.integral(one.relation, goal)
        sides = [numbers.polynomial(side, naturals=not integral) for side in (one.relation.left, one.relation.right)]
        monomials = [set(dict(monomial)) for side in sides for monomial in side]
        for name in sorted(set.intersection(*monomials)) if all(sides) else ():
            left, right = (
                text({without(name, monomial): factor for monomial, factor in side.items()}) for side in sides
            )
            owner = "Int" if integral else "Nat"
            zero = "by first | omega | (intro hz; subst hz; simp_all; done)" if integral else "by first | omega | grind"
            same = f"show {name} * ({left}) = {name} * ({right}) by grind -verbose"
            fact = f"{owner}.eq_of_mul_eq_mul_left ({zero}) ({same})"
            yield Move(0.4, "products", f"have {goal.fresh('hq')[0]} : {left} = {right} := {fact}", MIDDLE)


def without_powers(goal: PrintedGoal) -> Iterator[Move]:
    """Equal powers of naturals: of the same exponent, of the same base."""
    name = goal.fresh("hq")[0]
    for one in arithmetic.equations(goal):
        match (one.relation.left, one.relation.right):
            case (Operation("^", (a, m)), Operation("^", (b, n))) if (a == b) != (m == n):
                law = "Nat.pow_left_inj" if m == n else "Nat.pow_right_inj"
                yield Move(0.4, "products", f"have {name} := ({law} (by omega)).mp {one.name}", SHORT)


def without(name: str, monomial: numbers.Monomial) -> numbers.Monomial:
    """The monomial divided by a variable in it."""
    return tuple((each, times - (each == name)) for each, times in monomial if each != name or times > 1)


def cancelled(goal: PrintedGoal) -> Iterator[Move]:
    """An equation of products, divided by what is not zero."""
    name = goal.fresh("hq")[0]
    positive = "(by first | omega | (apply Nat.pos_of_ne_zero; simp_all; done))"
    for one in arithmetic.equations(goal):
        if "*" in goal.said and not arithmetic.integral(one.relation, goal):
            left = f"Nat.eq_of_mul_eq_mul_left {positive} {one.name}"
            padded = f"Nat.eq_of_mul_eq_mul_left {positive} (Eq.trans {one.name} (Nat.mul_one _).symm)"
            right = f"Nat.eq_of_mul_eq_mul_right {positive} {one.name}"
            for fact in (left, right, padded):
                yield Move(0.8, "products", f"have {name} := {fact}", SHORT)
        elif arithmetic.integral(one.relation, goal):
            yield Move(
                1.0,
                "products",
                f"have {name} := Int.eq_of_mul_eq_mul_left (by first | omega | assumption) {one.name}",
                SHORT,
            )
