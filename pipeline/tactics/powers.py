"""Powers: how they repeat modulo a number, that they are positive, how they grow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.tactics import arithmetic
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, SHORT, Move
from pipeline.tactics.scripts import cases, chain, either
from pipeline.tactics.terms import Number, Operation, Term, leaves, shown

LONGEST = 24  # of a period
FEW_CASES, MOST_CASES = 30, 200
COMPUTED = 5000  # exponents up to this are left to the kernel


class Power(NamedTuple):
    """A number to an exponent that is not one."""

    base: int
    exponent: Term
    kind: str

    @property
    def text(self) -> str:
        base = f"({self.base} : {self.kind})"
        return f"{base} ^ {shown(self.exponent, tight=True)}"


def propose(goal: PrintedGoal) -> Iterator[Move]:
    yield from reduced(goal)
    powers = open_powers(goal)
    for modulus in arithmetic.moduli(goal)[:2]:
        yield from repeated(powers[:3], modulus)
    for place, power in enumerate(positive(goal)[:3]):
        yield Move((0.8 if " - " in goal.said else 1.3) + 0.1 * place, "powers", said_positive(power, goal), SHORT)
    for place, one in enumerate(powers[:2]):
        if one.base > 1 and one.kind == "Nat":
            grows = f"have {goal.fresh('hp')[0]} : {shown(one.exponent)} < {one.text} := Nat.lt_pow_self (by omega)"
            yield Move((0.6 if " - " in goal.said else 1.3) + 0.1 * place, "powers", grows, SHORT)


def reduced(goal: PrintedGoal) -> Iterator[Move]:
    """Powers so large that they cannot be computed, modulo a number: their exponents counted in periods."""
    large = [one for one in arithmetic.subterms(goal) if too_large(one)]
    for modulus in arithmetic.moduli(goal)[:2] if large else ():
        names = goal.fresh("hr", len(large))
        lines = [line for one, name in zip(large, names, strict=True) for line in at_exponent(one, modulus, name)]
        unknown = goal.fresh("t", len(large))
        general = [f"generalize {shown(one)} = {name} at *" for one, name in zip(large, unknown, strict=True)]
        yield Move(0.05, "powers", chain([*lines, *general, "omega"]), LONG, closing=True)


def too_large(term: Term) -> bool:
    match term:
        case Operation("^", (Number(base), Number(exponent))):
            return base > 1 and exponent > COMPUTED
    return False


def at_exponent(power: Term, modulus: int, name: str) -> list[str]:
    match power:
        case Operation("^", (Number(base), Number(exponent) as raised)):
            start, period = cycle(base, modulus)
            rest = start + (exponent - start) % period
            times = (exponent - rest) // period
            at, why = f"{period} * q + {rest}", proof(Power(base, raised, "Nat"), rest, period)
            return [
                f"have {name} : ∀ q : Nat, {base} ^ ({at}) % {modulus} = {base**rest % modulus} := by ({why})",
                f"have {name} := {name} {times}",
                f"rw [show {period} * {times} + {rest} = {exponent} from rfl] at {name}",
            ]
    return []


def open_powers(goal: PrintedGoal) -> list[Power]:
    found = []
    for term in arithmetic.subterms(goal):
        match term:
            case Operation("^", (Number(base), exponent)) if leaves(exponent) and abs(base) < 10**6:
                found.append(Power(base, exponent, kind(goal)))
    return found


def kind(goal: PrintedGoal) -> str:
    """Of the numbers that are raised: exponents are naturals always."""
    integral = any(arithmetic.integral(one.relation, goal) for one in arithmetic.stated(goal))
    return "Int" if integral or (not arithmetic.stated(goal) and goal.of_type("Int")) else "Nat"


def repeated(powers: list[Power], modulus: int) -> Iterator[Move]:
    """By cases on the exponent modulo the period, with what every power is then."""
    told = [said for place, power in enumerate(powers) if (said := table(power, modulus, f"ht{place}"))]
    many = math.prod(sum(cycle(power.base, modulus)) for power in powers)
    if not told or many > MOST_CASES:
        return
    lines = [line for one in told for line in one]
    names = [line.split()[1] for one in told for line in one[-1:]]
    yield Move(0.1 if many <= FEW_CASES else 0.8, "powers", chain([*lines, *ended(names)]), LONG, closing=True)
    yield Move(0.7, "powers", chain(lines), LONG)


def ended(names: list[str]) -> list[str]:
    apart = " <;> ".join(f"(rcases {name} with {name})" for name in names)
    return [f"{apart} <;> (first | omega | (simp_all; omega) | grind -verbose)"]


def table(power: Power, modulus: int, name: str) -> list[str]:
    """Tactics that state the residue of the power for every residue of its exponent; none where the period is long."""
    start, period = cycle(power.base, modulus)
    if period > LONGEST or start > 4:
        return []
    e, of = shown(power.exponent, tight=True), f"({power.base} : {power.kind})"
    first = power.base**start % modulus
    claim = f"∀ q : Nat, {of} ^ ({period} * q + {start}) % {modulus} = {first}"
    again = f"have {name}r : {claim} := by ({proof(power, start, period)})"
    values = [power.base ** (start + step) % modulus for step in range(period)]
    small = [f"({e} = {at} ∧ {of} ^ {e} = {power.base**at})" for at in range(start)]
    rest = [
        f"({e} ≥ {start} ∧ {e} % {period} = {(start + step) % period} ∧ {of} ^ {e} % {modulus} = {value})"
        for step, value in enumerate(values)
    ]
    said = f"have {name} : {either([*small, *rest])} := by ({by_cases(power, start, period, modulus, name)})"
    positive = [f"have {name}p : 0 < {of} ^ {e} := {power.kind}.pow_pos (by decide)"] if power.base > 0 else []
    return [again, *positive, said]


def proof(power: Power, start: int, period: int) -> str:
    """That the period is one, by induction."""
    of = f"({power.base} : {power.kind})"
    at, name = f"{period} * q + {start}", power.kind
    next_one = f"rw [show {period} * (q + 1) + {start} = ({at}) + {period} by omega, {name}.pow_add]"
    step = f"({next_one}; generalize {of} ^ ({at}) = t at *; omega)"
    return f"intro q; induction q with | zero => decide | succ q ih => {step}"


def by_cases(power: Power, start: int, period: int, modulus: int, name: str) -> str:
    """The exponent is small, or one of a period beyond the start."""
    e, of = shown(power.exponent, tight=True), f"({power.base} : {power.kind})"
    times = f"(({e} - {start}) / {period})"
    forms = [f"{e} = ({period} * {times} + {start}) + {step}" for step in range(period)]
    split = f"have hr : {either([*(f'{e} = {at}' for at in range(start)), *forms])} := by omega"
    law = f"{power.kind}.mul_{'mod' if power.kind == 'Nat' else 'emod'}"
    value = f"(by (have hv := congrArg (fun k => {of} ^ k % {modulus}) hr); simp only at hv; rw [hv]; "
    value += f"rw [{power.kind}.pow_add, {law}, {name}r {times}] <;> rfl)"
    proofs = ["⟨hr, by rw [hr] <;> rfl⟩"] * start + [f"⟨by omega, by omega, {value}⟩"] * period
    chosen = [f"(exact {alternative(place, len(proofs), one)})" for place, one in enumerate(proofs)]
    return "; ".join([f"({split})", cases("hr", start + period), *chosen])


def alternative(place: int, count: int, proof: str) -> str:
    """Of so many joined by ∨."""
    last = f"(Or.inl {proof})" if place < count - 1 else proof
    return "(Or.inr " * place + last + ")" * place


def cycle(base: int, modulus: int) -> tuple[int, int]:
    """After how many powers they repeat, and how many then do."""
    seen: dict[int, int] = {}
    residue, exponent = 1 % modulus, 0
    while residue not in seen:
        seen[residue] = exponent
        residue, exponent = residue * base % modulus, exponent + 1
    return seen[residue], exponent - seen[residue]


def positive(goal: PrintedGoal) -> list[Operation]:
    """Powers that may not be known to be positive: what is raised is a variable, or the exponent is."""
    powers = [one for one in arithmetic.subterms(goal) if isinstance(one, Operation) and one.sign == "^"]
    return [one for one in powers if f"0 < {shown(one)}" not in goal.said and leaves(one)]


def said_positive(power: Operation, goal: PrintedGoal) -> str:
    owner = "Int" if arithmetic.is_integral(power, goal) else "Nat"
    return f"have {goal.fresh('hp')[0]} : 0 < {shown(power)} := {owner}.pow_pos (by omega)"
