"""Products and powers that are a number: each factor divides it, each base is a root."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import arithmetic
from pipeline.tactics.arithmetic import Stated
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, SHORT, Move
from pipeline.tactics.scripts import cases, chain, divisors, either, root
from pipeline.tactics.terms import Number, Operation, Relation, Term, leaves, shown

LARGEST = 4000
MOST = 24  # divisors


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, one in enumerate(arithmetic.equations(goal)):
        for fact in (one, turned(one)):
            for cost, tactic, budget in from_equation(fact, goal):
                yield Move(cost + 0.05 * place, "factors", tactic, budget)
    for place, one in enumerate(arithmetic.known(goal)):
        if one.relation.sign == "∣" and one.relation.holds:
            yield Move(1.0 + 0.05 * place, "factors", quotient(one, goal), SHORT)
            yield Move(1.1 + 0.05 * place, "factors", f"have {goal.fresh('hd')[0]} := {below(one, goal)}", SHORT)


def turned(one: Stated) -> Stated:
    """`6 = x * y` as `x * y = 6`."""
    return Stated(f"{one.name}.symm", Relation("=", one.relation.right, one.relation.left))


def from_equation(one: Stated, goal: PrintedGoal) -> Iterator[tuple[float, str, float]]:
    integral = arithmetic.integral(one.relation, goal)
    match (one.relation.left, one.relation.right):
        case (Operation("*", (left, right)), Number(number)) if 0 < number <= LARGEST and leaves(left):
            if len(divisors(number)) <= MOST:
                write = integer_divisor if integral else natural_divisor
                yield 0.3, write(one.name, left, number, goal, "⟨_, {0}.symm⟩"), LONG
                if leaves(right):
                    yield (
                        0.35,
                        write(one.name, right, number, goal, "⟨_, (Eq.trans ({0}.symm) ({1}.mul_comm _ _))⟩"),
                        LONG,
                    )
        case (Operation("*", (left, right)), Number(0)):
            owner = "Int" if integral else "Nat"
            yield 0.1, f"cases ({owner}.mul_eq_zero.mp {one.name})", SHORT
        case (Operation("^", (base, Number(exponent))), Number(number)) if leaves(base) and exponent > 1:
            if root(number, exponent) ** exponent == number and not integral:
                yield 0.2, natural_root(one.name, base, exponent, number, goal), MIDDLE


def natural_divisor(name: str, factor: Term, number: int, goal: PrintedGoal, why: str) -> str:
    """`factor = 1 ∨ …`, a case for every divisor."""
    key, found = goal.fresh("key")[0], goal.fresh("hf")[0]
    values = divisors(number)
    test = f"decide ({number} % d = 0 → {either(f'd = {value}' for value in values)})"
    checked = f"have {key} : (List.range {number + 1}).all (fun d => {test}) = true := by decide +kernel"
    divides = f"have {found}d : {shown(factor)} ∣ {number} := {why.format(name, 'Nat')}"
    inside = f"(List.mem_range.mpr (Nat.lt_succ_of_le (Nat.le_of_dvd (by decide) {found}d)))"
    said = f"have {found} := of_decide_eq_true (List.all_eq_true.mp {key} ({shown(factor)}) {inside}) (Nat.mod_eq_zero_of_dvd {found}d)"
    return chain(
        [checked, divides, said, f"clear {key} {found}d", f"({cases(found, len(values))}) <;> {put_in(name, found)}"]
    )


def integer_divisor(name: str, factor: Term, number: int, goal: PrintedGoal, why: str) -> str:
    """The same by absolute values."""
    key, found = goal.fresh("key")[0], goal.fresh("hf")[0]
    values = divisors(number)
    test = f"decide ({number} % d = 0 → {either(f'd = {value}' for value in values)})"
    checked = f"have {key} : (List.range {number + 1}).all (fun d => {test}) = true := by decide +kernel"
    text = shown(factor)
    divides = f"have {found}d : ({text}).natAbs ∣ {number} := Int.natAbs_dvd_natAbs.mpr (show {text} ∣ ({number} : Int) from {why.format(name, 'Int')})"
    inside = f"(List.mem_range.mpr (Nat.lt_succ_of_le (Nat.le_of_dvd (by decide) {found}d)))"
    said = f"have {found}a := of_decide_eq_true (List.all_eq_true.mp {key} ({text}).natAbs {inside}) (Nat.mod_eq_zero_of_dvd {found}d)"
    signed = [sign * value for value in values for sign in (1, -1)]
    both = f"have {found} : {either(f'{text} = {value}' for value in signed)} := by omega"
    cleared = f"clear {key} {found}d {found}a"
    return chain([checked, divides, said, both, cleared, f"({cases(found, len(signed))}) <;> {put_in(name, found)}"])


def put_in(name: str, found: str) -> str:
    """A factor that is now a number makes the equation linear."""
    fact = name.removesuffix(".symm")
    return f"((try (rw [{found}] at {fact})); (try (exfalso; omega)); (try omega))"


def natural_root(name: str, base: Term, exponent: int, number: int, goal: PrintedGoal) -> str:
    value, found, text = root(number, exponent), goal.fresh("hf")[0], shown(base)
    smaller = f"(have hw := Nat.pow_lt_pow_left hv (show {exponent} ≠ 0 by decide); omega)"
    proof = f"(rcases Nat.lt_trichotomy ({text}) {value} with hv | hv | hv; (focus {smaller}); (focus exact hv); (focus {smaller}))"
    return f"have {found} : {text} = {value} := by (have he := {name}; {proof})"


def quotient(one: Stated, goal: PrintedGoal) -> str:
    k, hk = goal.fresh("k")[0], goal.fresh("hk")[0]
    return f"obtain ⟨{k}, {hk}⟩ := {one.name}"


def below(one: Stated, goal: PrintedGoal) -> str:
    owner = "Int" if arithmetic.integral(one.relation, goal) else "Nat"
    return f"{owner}.le_of_dvd (by first | omega | (simp_all; done) | grind) {one.name}"
