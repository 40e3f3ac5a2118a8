"""Powers that are a number: the base is a root of it, or there is none; exponents that cannot be large."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import arithmetic
from pipeline.tactics.arithmetic import Stated
from pipeline.tactics.factors import turned
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import MIDDLE, SHORT, Move
from pipeline.tactics.scripts import chain, root
from pipeline.tactics.terms import Leaf, Number, Operation, Term, leaves, shown, subterms

LARGEST_EXPONENT = 60


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, fact in enumerate(arithmetic.equations(goal)):
        integral = arithmetic.integral(fact.relation, goal)
        for one in (fact, turned(fact)):
            match (as_power(one.relation.left), one.relation.right):
                case ((base, exponent), Number(number)) if number > 0 and (exponent == 2 or not integral):
                    write = integer_root if integral else natural_root
                    tactic = write(one.name, base, exponent, number, goal)
                    yield Move(0.2 + 0.05 * place, "roots", tactic, MIDDLE)
            yield from exponents(one, goal)


def as_power(term: Term) -> tuple[Term, int] | None:
    """`x ^ 3`, and `x * x`."""
    match term:
        case Operation("^", (base, Number(exponent))) if leaves(base) and exponent > 1:
            return base, exponent
        case Operation("*", (left, right)) if left == right and leaves(left):
            return left, 2
    return None


def natural_root(name: str, base: Term, exponent: int, number: int, goal: PrintedGoal) -> str:
    value, found, text = root(number, exponent), goal.fresh("hf")[0], f"({shown(base)})"
    lines = [f"have {found}p : {text} ^ {exponent} = {number} := by (have he := {name}; grind -verbose)"]
    if value**exponent != number:
        split = f"rcases Nat.lt_or_ge {text} {value + 1} with hv | hv"
        below = f"(have hw := Nat.pow_le_pow_left (Nat.le_of_lt_succ hv) {exponent}; omega)"
        return chain([*lines, "exfalso", split, below, f"(have hw := Nat.pow_le_pow_left hv {exponent}; omega)"])
    differs = f"(have hw := Nat.pow_lt_pow_left hv (show {exponent} ≠ 0 by decide); omega)"
    split = f"rcases Nat.lt_trichotomy {text} {value} with hv | hv | hv"
    return chain([*lines, f"have {found} : {text} = {value} := by ({split}; {differs}; (exact hv); {differs})"])


def integer_root(name: str, base: Term, _: int, number: int, goal: PrintedGoal) -> str:
    """Squares only, by absolute values."""
    value, found, text = root(number, 2), goal.fresh("hf")[0], f"({shown(base)})"
    size = f"{text}.natAbs"
    square = f"have {found}m : {text} * {text} = {number} := by (have he := {name}; grind -verbose)"
    lines = [square, f"have {found}p : {size} * {size} = {number} := by (rw [← Int.natAbs_mul, {found}m]; rfl)"]
    if value**2 != number:
        split = f"rcases Nat.lt_or_ge {size} {value + 1} with hv | hv"
        below = "(have hw := Nat.mul_le_mul (Nat.le_of_lt_succ hv) (Nat.le_of_lt_succ hv); omega)"
        return chain([*lines, "exfalso", split, below, "(have hw := Nat.mul_le_mul hv hv; omega)"])
    differs = "(have hw := Nat.mul_self_lt_mul_self hv; omega)"
    split = f"rcases Nat.lt_trichotomy {size} {value} with hv | hv | hv"
    lines.append(f"have {found} : {size} = {value} := by ({split}; {differs}; (exact hv); {differs})")
    signs = f"have {found}s : {text} = {value} ∨ {text} = -{value} := by omega"
    return chain([*lines, signs, f"rcases {found}s with {found}s | {found}s"])


def exponents(one: Stated, goal: PrintedGoal) -> Iterator[Move]:
    """`2 ^ x * … = n`: 2 ^ x divides n, or is at most n, and so x is at most a logarithm."""
    side, other = one.relation.left, one.relation.right
    if not isinstance(other, Number) or other.value <= 0 or arithmetic.is_integral(side, goal):
        return
    lines: list[str] = []
    for power in subterms(side):
        match power:
            case Operation("^", (Number(base), Leaf(exponent))) if base > 1 and f"{exponent} ≤ " not in goal.said:
                largest = next((at for at in range(LARGEST_EXPONENT) if base ** (at + 1) > other.value), 0)
                name = goal.fresh("hb", len(lines) + 1)[-1]
                why = limited(one.name, shown(power), base, other.value)
                lines.append(f"have {name} : {exponent} ≤ {largest} := by {why}")
    if lines:
        yield Move(0.1, "roots", chain(lines), SHORT)


def limited(name: str, power: str, base: int, number: int) -> str:
    divides = f"(rw [← {name}]; first | exact Nat.dvd_mul_right _ _ | exact Nat.dvd_mul_left _ _)"
    small = f"first | omega | exact Nat.le_of_dvd (by decide) (by {divides})"
    grows = f"have hp := Nat.pow_le_pow_right (n := {base}) (by decide) hlt"
    return f"(apply Nat.le_of_not_lt; intro hlt; ({grows}); (have he : {power} ≤ {number} := by {small}); omega)"
