"""Powers and roots: how powers repeat modulo a number, that they are positive, how they grow; powers that are a number.

Of a power that is a number the base is a root of it, or there is none; an open exponent cannot be large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.tactics.families.divisibility import swap_sides
from pipeline.tactics.text import arithmetic, numbers
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.move import LONG, MIDDLE, SHORT, TacticMove, case_split, chain, disjunction, floor_root
from pipeline.tactics.text.terms import Leaf, Number, Operation, Term, leaves, subterms, term_text

LONGEST_PERIOD = 24
FEW_CASES, MOST_CASES = 30, 200
LARGEST_COMPUTED = 5000  # exponents up to this are left to the kernel


class Power(NamedTuple):
    """A number to an exponent that is not one."""

    base: int
    exponent: Term
    kind: str

    @property
    def text(self) -> str:
        base = f"({self.base} : {self.kind})"
        return f"{base} ^ {term_text(self.exponent, tight=True)}"


def propose_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    yield from reduce_large_powers(goal)
    powers = open_powers(goal)
    for modulus in arithmetic.moduli(goal)[:2]:
        yield from repeat_modulo(powers[:3], modulus)
    for place, power in enumerate(unsettled_powers(goal)[:3]):
        yield TacticMove(
            (0.8 if " - " in goal.propositions else 1.3) + 0.1 * place, positivity_fact(power, goal), SHORT
        )
    for place, one in enumerate(powers[:2]):
        if one.base > 1 and one.kind == "Nat":
            grows = f"have {goal.fresh('hp')[0]} : {term_text(one.exponent)} < {one.text} := Nat.lt_pow_self (by omega)"
            yield TacticMove((0.6 if " - " in goal.propositions else 1.3) + 0.1 * place, grows, SHORT)


def reduce_large_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Powers so large that they cannot be computed, modulo a number: their exponents counted in periods."""
    large = [one for one in arithmetic.goal_subterms(goal) if too_large(one)]
    for modulus in arithmetic.moduli(goal)[:2] if large else ():
        names = goal.fresh("hr", len(large))
        lines = [line for one, name in zip(large, names, strict=True) for line in at_exponent(one, modulus, name)]
        unknown = goal.fresh("t", len(large))
        general = [f"generalize {term_text(one)} = {name} at *" for one, name in zip(large, unknown, strict=True)]
        yield TacticMove(0.05, chain([*lines, *general, "omega"]), LONG, closing=True)


def too_large(term: Term) -> bool:
    match term:
        case Operation("^", (Number(base), Number(exponent))):
            return base > 1 and exponent > LARGEST_COMPUTED
    return False


def at_exponent(power: Term, modulus: int, name: str) -> list[str]:
    match power:
        case Operation("^", (Number(base), Number(exponent) as raised)):
            start, period = power_cycle(base, modulus)
            rest = start + (exponent - start) % period
            times = (exponent - rest) // period
            at, why = f"{period} * q + {rest}", period_proof(Power(base, raised, "Nat"), rest, period)
            return [
                f"have {name} : ∀ q : Nat, {base} ^ ({at}) % {modulus} = {base**rest % modulus} := by ({why})",
                f"have {name} := {name} {times}",
                f"rw [show {period} * {times} + {rest} = {exponent} from rfl] at {name}",
            ]
    return []


def open_powers(goal: PrintedGoal) -> list[Power]:
    found = []
    for term in arithmetic.goal_subterms(goal):
        match term:
            case Operation("^", (Number(base), exponent)) if leaves(exponent) and abs(base) < 10**6:
                found.append(Power(base, exponent, base_type(goal)))
    return found


def base_type(goal: PrintedGoal) -> str:
    """Type of the numbers that are raised: exponents are naturals always."""
    integral = any(arithmetic.is_integral_relation(one.relation, goal) for one in arithmetic.stated_relations(goal))
    return "Int" if integral or (not arithmetic.stated_relations(goal) and goal.of_type("Int")) else "Nat"


def repeat_modulo(powers: list[Power], modulus: int) -> Iterator[TacticMove]:
    """Split by cases on the exponent modulo the period, with what every power is then."""
    told = [said for place, power in enumerate(powers) if (said := residue_table(power, modulus, f"ht{place}"))]
    many = math.prod(sum(power_cycle(power.base, modulus)) for power in powers)
    if not told or many > MOST_CASES:
        return
    lines = [line for one in told for line in one]
    names = [line.split()[1] for one in told for line in one[-1:]]
    yield TacticMove(0.1 if many <= FEW_CASES else 0.8, chain([*lines, *final_cases(names)]), LONG, closing=True)
    yield TacticMove(0.7, chain(lines), LONG)


def final_cases(names: list[str]) -> list[str]:
    apart = " <;> ".join(f"(rcases {name} with {name})" for name in names)
    return [f"{apart} <;> (first | omega | (simp_all; omega) | grind -verbose)"]


def residue_table(power: Power, modulus: int, name: str) -> list[str]:
    """Tactics that state the residue of the power for every residue of its exponent; none where the period is long."""
    start, period = power_cycle(power.base, modulus)
    if period > LONGEST_PERIOD or start > 4:
        return []
    e, of = term_text(power.exponent, tight=True), f"({power.base} : {power.kind})"
    first = power.base**start % modulus
    claim = f"∀ q : Nat, {of} ^ ({period} * q + {start}) % {modulus} = {first}"
    again = f"have {name}r : {claim} := by ({period_proof(power, start, period)})"
    values = [power.base ** (start + step) % modulus for step in range(period)]
    small = [f"({e} = {at} ∧ {of} ^ {e} = {power.base**at})" for at in range(start)]
    rest = [
        f"({e} ≥ {start} ∧ {e} % {period} = {(start + step) % period} ∧ {of} ^ {e} % {modulus} = {value})"
        for step, value in enumerate(values)
    ]
    said = f"have {name} : {disjunction([*small, *rest])} := by ({exponent_cases(power, start, period, modulus, name)})"
    positive = [f"have {name}p : 0 < {of} ^ {e} := {power.kind}.pow_pos (by decide)"] if power.base > 0 else []
    return [again, *positive, said]


def period_proof(power: Power, start: int, period: int) -> str:
    """Proof by induction that the period is one."""
    of = f"({power.base} : {power.kind})"
    at, name = f"{period} * q + {start}", power.kind
    next_one = f"rw [show {period} * (q + 1) + {start} = ({at}) + {period} by omega, {name}.pow_add]"
    step = f"({next_one}; generalize {of} ^ ({at}) = t at *; omega)"
    return f"intro q; induction q with | zero => decide | succ q ih => {step}"


def exponent_cases(power: Power, start: int, period: int, modulus: int, name: str) -> str:
    """The exponent is small, or one of a period beyond the start."""
    e, of = term_text(power.exponent, tight=True), f"({power.base} : {power.kind})"
    times = f"(({e} - {start}) / {period})"
    forms = [f"{e} = ({period} * {times} + {start}) + {step}" for step in range(period)]
    split = f"have hr : {disjunction([*(f'{e} = {at}' for at in range(start)), *forms])} := by omega"
    law = f"{power.kind}.mul_{'mod' if power.kind == 'Nat' else 'emod'}"
    value = f"(by (have hv := congrArg (fun k => {of} ^ k % {modulus}) hr); simp only at hv; rw [hv]; "
    value += f"rw [{power.kind}.pow_add, {law}, {name}r {times}] <;> rfl)"
    proofs = ["⟨hr, by rw [hr] <;> rfl⟩"] * start + [f"⟨by omega, by omega, {value}⟩"] * period
    chosen = [f"(exact {or_alternative(place, len(proofs), one)})" for place, one in enumerate(proofs)]
    return "; ".join([f"({split})", case_split("hr", start + period), *chosen])


def or_alternative(place: int, count: int, proof: str) -> str:
    """Proof of one of so many alternatives joined by ∨."""
    last = f"(Or.inl {proof})" if place < count - 1 else proof
    return "(Or.inr " * place + last + ")" * place


def power_cycle(base: int, modulus: int) -> tuple[int, int]:
    """Number of powers before they repeat, and the length of the period."""
    seen: dict[int, int] = {}
    residue, exponent = 1 % modulus, 0
    while residue not in seen:
        seen[residue] = exponent
        residue, exponent = residue * base % modulus, exponent + 1
    return seen[residue], exponent - seen[residue]


def unsettled_powers(goal: PrintedGoal) -> list[Operation]:
    """Powers with a variable that are not stated to be positive."""
    powers = [one for one in arithmetic.goal_subterms(goal) if isinstance(one, Operation) and one.sign == "^"]
    return [one for one in powers if f"0 < {term_text(one)}" not in goal.propositions and leaves(one)]


def positivity_fact(power: Operation, goal: PrintedGoal) -> str:
    owner = "Int" if arithmetic.is_integral(power, goal) else "Nat"
    return f"have {goal.fresh('hp')[0]} : 0 < {term_text(power)} := {owner}.pow_pos (by omega)"


LARGEST_EXPONENT = 60


def propose_roots(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, fact in enumerate(arithmetic.equations(goal)):
        integral = arithmetic.is_integral_relation(fact.relation, goal)
        for one in (fact, swap_sides(fact)):
            match (as_power(one.relation.left), numbers.constant_value(one.relation.right)):
                case ((base, exponent), int(number)) if number > 0 and (exponent == 2 or not integral):
                    write = integer_root if integral else natural_root
                    tactic = write(one.name, base, exponent, number, goal)
                    yield TacticMove(0.2 + 0.05 * place, tactic, MIDDLE)
            yield from exponent_bounds(one, goal)


def as_power(term: Term) -> tuple[Term, int] | None:
    """`x ^ 3`, and `x * x`."""
    match term:
        case Operation("^", (base, Number(exponent))) if leaves(base) and exponent > 1:
            return base, exponent
        case Operation("*", (left, right)) if left == right and leaves(left):
            return left, 2
    return None


def natural_root(name: str, base: Term, exponent: int, number: int, goal: PrintedGoal) -> str:
    value, found, text = floor_root(number, exponent), goal.fresh("hf")[0], f"({term_text(base)})"
    lines = [f"have {found}p : {text} ^ {exponent} = {number} := by (have he := {name}; grind -verbose)"]
    if value**exponent != number:
        split = f"rcases Nat.lt_or_ge {text} {value + 1} with hv | hv"
        below = f"(have hw := Nat.pow_le_pow_left (Nat.le_of_lt_succ hv) {exponent}; omega)"
        return chain([*lines, "exfalso", split, below, f"(have hw := Nat.pow_le_pow_left hv {exponent}; omega)"])
    differs = f"(have hw := Nat.pow_lt_pow_left hv (show {exponent} ≠ 0 by decide); omega)"
    split = f"rcases Nat.lt_trichotomy {text} {value} with hv | hv | hv"
    return chain([*lines, f"have {found} : {text} = {value} := by ({split}; {differs}; (exact hv); {differs})"])


def integer_root(name: str, base: Term, _: int, number: int, goal: PrintedGoal) -> str:
    """Root of a square, by absolute values."""
    value, found, text = floor_root(number, 2), goal.fresh("hf")[0], f"({term_text(base)})"
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


def exponent_bounds(one: StatedRelation, goal: PrintedGoal) -> Iterator[TacticMove]:
    """`2 ^ x * … = n`: 2 ^ x divides n, or is at most n, and so x is at most a logarithm."""
    side, other = one.relation.left, one.relation.right
    if not isinstance(other, Number) or other.value <= 0 or arithmetic.is_integral(side, goal):
        return
    lines: list[str] = []
    for power in subterms(side):
        match power:
            case Operation("^", (Number(base), Leaf(exponent))) if (
                base > 1 and f"{exponent} ≤ " not in goal.propositions
            ):
                largest = next((at for at in range(LARGEST_EXPONENT) if base ** (at + 1) > other.value), 0)
                name = goal.fresh("hb", len(lines) + 1)[-1]
                why = exponent_bound(one.name, term_text(power), base, other.value)
                lines.append(f"have {name} : {exponent} ≤ {largest} := by {why}")
    if lines:
        yield TacticMove(0.1, chain(lines), SHORT)


def exponent_bound(name: str, power: str, base: int, number: int) -> str:
    divides = f"(rw [← {name}]; first | exact Nat.dvd_mul_right _ _ | exact Nat.dvd_mul_left _ _)"
    small = f"first | omega | exact Nat.le_of_dvd (by decide) (by {divides})"
    grows = f"have hp := Nat.pow_le_pow_right (n := {base}) (by decide) hlt"
    return f"(apply Nat.le_of_not_lt; intro hlt; ({grows}); (have he : {power} ≤ {number} := by {small}); omega)"
