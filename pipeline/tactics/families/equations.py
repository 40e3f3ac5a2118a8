"""Equations solved: systems linear in their monomials, and polynomials in one unknown, at their whole roots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from itertools import accumulate

from pipeline.tactics.text import arithmetic, terms
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, TacticMove, chain
from pipeline.tactics.text.terms import Monomial

LinearRow = dict[Monomial, Fraction]
MOST_EQUATIONS = 12


def propose_linear(goal: PrintedGoal) -> Iterator[TacticMove]:
    known = solve_system(goal)
    if known and (len(known) > 1 or arithmetic.is_nonlinear(goal)):
        put_in = [f"obtain rfl : {name} = {value} := by omega" for name, value in known.items()]
        yield TacticMove(0.05, chain([*put_in, "try first | omega | (simp_all; done)"]), LONG)


def solve_system(goal: PrintedGoal) -> dict[str, int]:
    """Variables with the number that each of them must be, in the order in which they can be found."""
    forms = (fact.form for fact in arithmetic.equations(goal)[:MOST_EQUATIONS])
    rows = [{monomial: Fraction(factor) for monomial, factor in form.items()} for form in forms if form]
    plain = set(goal.of_type("Nat", "Int"))
    found: dict[str, int] = {}
    while new := {name: value for name, value in determined_unknowns(rows).items() if name in plain - found.keys()}:
        found |= new
        rows = [row for old in rows if (row := substitute(old, new))]
    return found


def determined_unknowns(rows: list[LinearRow]) -> dict[str, int]:
    """Unknowns that are one variable and have a whole number as their only value."""
    done: list[LinearRow] = []  # reduced until each leading unknown is in one row only
    for one in rows:
        row = reduce(eliminate_lead, done, one)
        if any(row):
            done = [*(eliminate_lead(other, row) for other in done), row]
    found = {}
    for row in done:
        match [monomial for monomial in row if monomial]:
            case [((name, 1),) as monomial]:
                value = -row.get((), Fraction(0)) / row[monomial]
                if value.denominator == 1:
                    found[name] = int(value)
    return found


def eliminate_lead(row: LinearRow, other: LinearRow) -> LinearRow:
    """The row less so much of the other that the other's leading unknown is gone.

    That is the one of highest degree, so that variables by themselves are left at the end."""
    lead = max((monomial for monomial in other if monomial), key=lambda one: (sum(times for _, times in one), one))
    return terms.add_polynomials(row, other, -row[lead] / other[lead]) if lead in row else row


def substitute(row: LinearRow, values: dict[str, int]) -> LinearRow:
    found: LinearRow = {}
    for monomial, factor in row.items():
        left = tuple((name, times) for name, times in monomial if name not in values)
        worth = math.prod(values.get(name, 1) ** times for name, times in monomial)
        found = terms.add_polynomials(found, {left: factor * worth})
    return found


ROOT_REACH = 1000  # how far from 0 roots are looked for
Coefficients = list[int]  # from the constant on


def propose_polynomials(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, one in enumerate(arithmetic.equations(goal)):
        form = one.form
        names = terms.leaf_names(form)
        if len(names) != 1 or "↑" in names[0] or (one.kind == "Nat" and goal.types.get(names[0]) != "Nat"):
            continue
        by_power = [form.get(((names[0], power),) if power else (), 0) for power in range(terms.degree(form) + 1)]
        if len(by_power) > 2:
            yield TacticMove(0.15 + 0.05 * place, split_at_roots(one, names[0], by_power, goal), LONG)


def split_at_roots(one: StatedRelation, name: str, coefficients: Coefficients, goal: PrintedGoal) -> str:
    """A case for each root, which is put in, and one for the rest, if there is any."""
    roots, rest = divide_by_roots(coefficients)
    found = goal.fresh("hf")[0]
    at, given = (name, one.name) if one.kind == "Int" else (f"({name} : Int)", f"congrArg (Int.ofNat ·) {one.name}")
    factors = [f"({at} - ({root}))" for root in roots]
    scale = f"{rest[0]} * " if len(rest) == 1 and rest[0] != 1 else ""
    if len(rest) > 1:
        summands = (f"({factor}) * {at} ^ {power}" for power, factor in enumerate(rest) if factor)
        factors.append(f"({' + '.join(summands)})")
    none = no_root_proof(rest, at)
    product = f"{scale}({' * ('.join(factors)}" + ")" * len(factors)
    lines = [
        f"have {found}i := {given}",
        f"have {found} : {product} = 0 := by (first | grind -verbose | (simp at {found}i; grind -verbose))",
        f"clear {found}i",
        *([f"have {found} := (Int.mul_eq_zero.mp {found}).resolve_left (by decide)"] if scale else []),
        f"simp only [Int.mul_eq_zero] at {found}" if len(factors) > 1 else "skip",
        f"(rcases {found} with {' | '.join([found] * len(factors))}) <;> (first | omega | ({none}) | skip)",
    ]
    return chain(lines)


def no_root_proof(rest: Coefficients, at: str) -> str:
    """A quadratic that has no whole root: four times its leading coefficient times it is a square less a number."""
    if len(rest) != 3:
        return "fail"
    c, b, a = rest
    number, base = b * b - 4 * a * c, f"({2 * a} * {at} + {b})"
    size = f"{base}.natAbs"
    square = f"have hsq : {base} * {base} = {number} := by grind -verbose"
    if number < 0:
        sign = f"(rcases Int.le_total 0 {base} with hs | hs)"
        positive = "(have hp := Int.mul_nonneg hs hs; omega)"
        return f"({square}); {sign}; {positive}; (have hp := Int.mul_nonneg_of_nonpos_of_nonpos hs hs; omega)"
    low = terms.floor_root(number, 2)
    sizes = f"have hsz : {size} * {size} = {number} := by (rw [← Int.natAbs_mul, hsq]; rfl)"
    below = "(have hw := Nat.mul_le_mul (Nat.le_of_lt_succ hv) (Nat.le_of_lt_succ hv); omega)"
    split = f"rcases Nat.lt_or_ge {size} {low + 1} with hv | hv"
    return f"({square}); ({sizes}); ({split}); {below}; (have hw := Nat.mul_le_mul hv hv; omega)"


def divide_by_roots(coefficients: Coefficients) -> tuple[list[int], Coefficients]:
    """The whole roots, each as often as it is one, and the rest."""
    roots: list[int] = []
    for root in sorted(range(-ROOT_REACH, ROOT_REACH + 1), key=abs):
        while len(coefficients) > 1:
            quotient, remainder = divide_by_root(coefficients, root)
            if remainder:
                break
            roots.append(root)
            coefficients = quotient
    return roots, coefficients


def divide_by_root(coefficients: Coefficients, root: int) -> tuple[Coefficients, int]:
    """Divide by x - root; the remainder is the value there."""
    *quotient, remainder = accumulate(reversed(coefficients), lambda total, factor: total * root + factor)
    return quotient[::-1], remainder
