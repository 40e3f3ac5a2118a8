"""Greatest common divisors: what divides two numbers divides their combinations."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, MIDDLE, SHORT, Move
from pipeline.tactics.scripts import chain
from pipeline.tactics.terms import Operation, Term, shown


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for term in [one for one in arithmetic.subterms(goal) if isinstance(one, Operation)][:40]:
        if term.sign == "gcd":
            yield from about_gcd(term.arguments[0], term.arguments[1], goal)
        if term.sign == "lcm":
            yield from about_lcm(term.arguments[0], term.arguments[1], goal)
    if goal.connective == "∣":
        yield from about_target(goal)


def about_gcd(left: Term, right: Term, goal: PrintedGoal) -> Iterator[Move]:
    a, b = shown(left, tight=True), shown(right, tight=True)
    one, other = goal.fresh("hg", 2)
    if "∣" not in goal.said:
        facts = [f"have {one} := Nat.gcd_dvd_left {a} {b}", f"have {other} := Nat.gcd_dvd_right {a} {b}"]
        yield Move(0.9, "divisibility", chain([*facts, "simp_all"]), SHORT)
        yield Move(1.0, "divisibility", chain(facts), SHORT)
    if combined := combination(left, right):
        yield Move(0.1, "divisibility", eliminated(a, b, combined, goal), LONG, closing=True)


def combination(left: Term, right: Term) -> tuple[int, int, int] | None:
    """p, q, c with p * left - q * right = c for linear terms of the same one variable; c is not negative."""
    one, other = (numbers.linear(numbers.polynomial(side)) for side in (left, right))
    if one is None or other is None or len(one[0]) != 1 or one[0].keys() != other[0].keys():
        return None
    (a,), (b,) = one[0].values(), other[0].values()
    p, q = b // gcd(a, b), a // gcd(a, b)
    constant = p * one[1] - q * other[1]
    return (p, q, constant) if constant else None


def eliminated(a: str, b: str, combined: tuple[int, int, int], goal: PrintedGoal) -> str:
    p, q, constant = combined
    g, one, other, name = *goal.fresh("g", 1), *goal.fresh("hg", 2), *goal.fresh("hd", 1)
    facts = [f"have {one} := Nat.gcd_dvd_left {a} {b}", f"have {other} := Nat.gcd_dvd_right {a} {b}"]
    first = (f"Nat.dvd_mul_left_of_dvd {one} {p}", f"Nat.dvd_mul_left_of_dvd {other} {q}")
    texts = (f"{p} * ({a})", f"{q} * ({b})")
    if constant < 0:
        first, texts = first[::-1], texts[::-1]
    size = abs(constant)
    divides = f"have {name} : Nat.gcd {a} {b} ∣ {size} := by (have h := Nat.dvd_sub ({first[0]}) ({first[1]}); rw [show {texts[0]} - {texts[1]} = {size} by omega] at h; exact h)"
    small = f"have {name}b := Nat.le_of_dvd (by decide) {name}"
    positive = f"have {name}c : 0 < Nat.gcd {a} {b} := Nat.pos_of_dvd_of_pos (Nat.dvd_refl _) (Nat.gcd_pos_of_pos_left _ (by omega))"
    general = f"generalize Nat.gcd {a} {b} = {g} at *"
    ends = f"first | omega | (simp_all; done) | ({split(g, size)}) | grind -verbose"
    return chain([*facts, divides, small, f"try ({positive})", general, ends])


def split(g: str, size: int) -> str:
    """Every number up to a small one."""
    if size > 60:
        return "fail"
    values = " ∨ ".join(f"{g} = {value}" for value in range(size + 1))
    pattern = " | ".join(["rfl"] * (size + 1))
    return f"(have hv : {values} := by omega); (rcases hv with {pattern}) <;> (first | omega | (simp_all; done) | (simp_all; omega))"


def about_lcm(left: Term, right: Term, goal: PrintedGoal) -> Iterator[Move]:
    a, b = shown(left, tight=True), shown(right, tight=True)
    names = goal.fresh("hl", 5)
    laws = ("gcd_mul_lcm", "dvd_lcm_left", "dvd_lcm_right", "gcd_dvd_left", "gcd_dvd_right")
    facts = [f"have {name} := Nat.{law} {a} {b}" for name, law in zip(names, laws, strict=True)]
    if "gcd" in goal.said or "lcm" in goal.target:
        equal = [fact.name for fact in arithmetic.equations(goal) if isinstance(fact.relation.left, Operation)]
        put_in = [f"try rw [{fact}] at {at}" for fact in equal for at in names]
        yield Move(0.3, "divisibility", chain([*facts, *put_in]), SHORT)
    yield Move(0.9, "divisibility", chain(facts[:3]), SHORT)
    if goal.connective == "≤" and "lcm" in goal.target:
        yield Move(0.4, "divisibility", below_multiple(a, b, goal), MIDDLE)


def below_multiple(a: str, b: str, goal: PrintedGoal) -> str:
    """Were the multiple small, so were the numbers."""
    hlt, one, other = goal.fresh("hlt")[0], *goal.fresh("hb", 2)
    limit = goal.target.split(" ≤ ")[0]
    positive = "(Nat.lcm_pos (by omega) (by omega))"
    sizes = [
        f"have {name} : {of} < {limit} := Nat.lt_of_le_of_lt (Nat.le_of_dvd {positive} (Nat.dvd_lcm_{side} {a} {b})) {hlt}"
        for name, of, side in ((one, a, "left"), (other, b, "right"))
    ]
    return chain(["apply Nat.le_of_not_lt", f"intro {hlt}", *sizes])


def about_target(goal: PrintedGoal) -> Iterator[Move]:
    for owner in ("Nat", "Int"):
        if goal.of_type(owner):
            yield Move(1.2, "divisibility", f"apply {owner}.dvd_add", SHORT)
            yield Move(1.3, "divisibility", f"apply {owner}.dvd_sub", SHORT)
            yield Move(1.3, "divisibility", f"apply {owner}.dvd_trans", MIDDLE)
