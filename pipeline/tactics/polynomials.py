"""Equations in one unknown: taken apart at their whole roots."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.arithmetic import Stated
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, Move
from pipeline.tactics.numbers import Polynomial
from pipeline.tactics.scripts import chain

REACH = 1000  # how far from 0 roots are looked for
Coefficients = list[int]  # from the constant on


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, one in enumerate(arithmetic.equations(goal)):
        integral = arithmetic.integral(one.relation, goal)
        form = numbers.difference(one.relation, naturals=not integral)
        name, coefficients = of_one(form)
        if len(coefficients) > 2 and (integral or goal.types.get(name) == "Nat"):
            at = name if integral else f"({name} : Int)"
            yield Move(0.15 + 0.05 * place, "polynomials", apart(one, at, coefficients, goal, integral=integral), LONG)


def of_one(form: Polynomial) -> tuple[str, Coefficients]:
    """The unknown and its coefficients; none where there is more than one unknown."""
    names = numbers.names(form)
    if len(names) != 1 or "↑" in names[0]:
        return "", []
    found = [0] * (numbers.degree(form) + 1)
    for monomial, factor in form.items():
        found[monomial[0][1] if monomial else 0] = factor
    return names[0], found


def apart(one: Stated, at: str, coefficients: Coefficients, goal: PrintedGoal, *, integral: bool) -> str:
    """A case for each root, which is put in, and one for the rest, if there is any."""
    roots, rest = divided(coefficients)
    found = goal.fresh("hf")[0]
    factors = [f"({at} - ({root}))" for root in roots] + ([horner(rest, at)] if len(rest) > 1 else [])
    scale = f"{rest[0]} * " if len(rest) == 1 and rest[0] != 1 else ""
    product = f"{scale}({' * '.join([*factors[:1]])}" + "".join(f" * ({factor}" for factor in factors[1:])
    product += ")" * len(factors)
    cast = f"have {found}i := {one.name}" if integral else f"have {found}i := congrArg (Int.ofNat ·) {one.name}"
    zero = f"have {found} : {product} = 0 := by (first | grind -verbose | (simp at {found}i; grind -verbose))"
    return chain([cast, zero, f"clear {found}i", *cases(found, factors, rest, at, scaled=bool(scale))])


def cases(found: str, factors: list[str], rest: Coefficients, at: str, *, scaled: bool) -> list[str]:
    first = [f"have {found} := (Int.mul_eq_zero.mp {found}).resolve_left (by decide)"] if scaled else []
    split = f"simp only [Int.mul_eq_zero] at {found}" if len(factors) > 1 else "skip"
    none = without_root(rest, at) if len(rest) > 1 else "fail"
    pattern = " | ".join([found] * len(factors))
    return [*first, split, f"(rcases {found} with {pattern}) <;> (first | omega | ({none}) | skip)"]


def without_root(rest: Coefficients, at: str) -> str:
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
    low = next(root for root in range(number + 2) if (root + 1) ** 2 > number)
    sizes = f"have hsz : {size} * {size} = {number} := by (rw [← Int.natAbs_mul, hsq]; rfl)"
    below = "(have hw := Nat.mul_le_mul (Nat.le_of_lt_succ hv) (Nat.le_of_lt_succ hv); omega)"
    split = f"rcases Nat.lt_or_ge {size} {low + 1} with hv | hv"
    return f"({square}); ({sizes}); ({split}); {below}; (have hw := Nat.mul_le_mul hv hv; omega)"


def divided(coefficients: Coefficients) -> tuple[list[int], Coefficients]:
    """The whole roots, each as often as it is one, and what is left."""
    roots: list[int] = []
    for root in sorted(range(-REACH, REACH + 1), key=abs):
        while len(coefficients) > 1 and value(coefficients, root) == 0:
            roots.append(root)
            coefficients = quotient(coefficients, root)
    return roots, coefficients


def value(coefficients: Coefficients, at: int) -> int:
    total = 0
    for factor in reversed(coefficients):
        total = total * at + factor
    return total


def quotient(coefficients: Coefficients, root: int) -> Coefficients:
    """By x - root, which divides it."""
    found = [coefficients[-1]]
    for factor in coefficients[-2:0:-1]:
        found.append(factor + root * found[-1])
    return found[::-1]


def horner(coefficients: Coefficients, at: str) -> str:
    terms = [f"({factor}) * {at} ^ {power}" for power, factor in enumerate(coefficients) if factor]
    return f"({' + '.join(terms)})"
