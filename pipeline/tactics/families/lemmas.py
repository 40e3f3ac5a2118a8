"""Equations and laws applied: rewriting, statements for all at things of the goal, laws applied backwards.

Laws of order and divisibility: a claim about a whole follows from the same claim about its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product

from pipeline.tactics.text import arithmetic, syntax
from pipeline.tactics.text.goal import Hypothesis, PrintedGoal, is_universe
from pipeline.tactics.text.tactic import LONG, MIDDLE, QUICK, TacticMove, chain, ranked

DISTRIBUTED = "{0}.mul_add, {0}.add_mul, {0}.pow_succ, {0}.pow_zero, {0}.mul_sub, {0}.sub_mul"
REORDERED = "{0}.mul_comm, {0}.mul_left_comm, {0}.mul_assoc, {0}.add_comm, {0}.add_left_comm, {0}.add_assoc"


def propose_rewriting(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, fact in enumerate(goal.facts):
        sign, later = syntax.connective(fact.type), 0.05 * place
        if sign == "=" and any(side in goal.types for side in syntax.split_at(fact.type, "=")):
            yield TacticMove(0.3 + later, f"subst {fact.name}")
        if sign == "=" or (sign == "∀" and "=" in fact.type):
            yield TacticMove(1.2 + later, f"rw [{fact.name}]")
        if sign == "=":
            yield TacticMove(1.6 + later, f"rw [← {fact.name}]")
        elif sign == "∀" and "=" in fact.type:
            yield TacticMove(1.5 + later, f"simp [{fact.name}]")
    yield TacticMove(0.5, "simp_all")
    yield from arithmetic_rewrites(goal)
    yield from side_moves(goal)


def arithmetic_rewrites(goal: PrintedGoal) -> Iterator[TacticMove]:
    if "^" not in goal.propositions and "*" not in goal.propositions:
        return
    for kind in ("Nat", "Int"):
        if goal.of_type(kind):
            out, order = DISTRIBUTED.format(kind), REORDERED.format(kind)
            yield TacticMove(1.0, f"(simp_all [{out}, {order}]; done)", MIDDLE, closing=True)
            yield TacticMove(1.1, f"(simp [{out}] at *; omega)", MIDDLE, closing=True)
            yield TacticMove(1.3, f"simp [{out}] at *", MIDDLE)
            if "^" in goal.propositions:
                yield TacticMove(0.7, f"simp only [{kind}.pow_succ, {kind}.pow_zero, {kind}.one_mul] at *")


def side_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective != "=":
        return
    if "→" in goal.text or "fun" in goal.target:
        yield TacticMove(0.6, f"funext {goal.fresh('x')[0]}", QUICK)
    if any(kind in goal.text for kind in ("List", "Array", "×", "Option")):
        yield TacticMove(1.0, "ext", QUICK)
    yield TacticMove(2.0, "congr 1", QUICK)
    if goal.of_type("Nat"):
        yield TacticMove(2.2, "apply Nat.le_antisymm", QUICK)
        yield TacticMove(2.4, "apply Nat.dvd_antisymm", QUICK)
    elif goal.of_type("Int"):
        yield TacticMove(2.2, "apply Int.le_antisymm", QUICK)


LONGEST_RECURRENCE = 120  # steps of a recurrence


def propose_specialising(goal: PrintedGoal) -> Iterator[TacticMove]:
    values = [*dict.fromkeys(instance_values(goal))]
    for place, fact in enumerate(fact for fact in goal.facts if syntax.connective(fact.type) == "∀"):
        count = len(syntax.bound_variables(fact.type)[0])
        choices = product(values[: 9 if count == 1 else 4], repeat=min(count, 2))
        instances = (f"have {goal.fresh('hs')[0]} := {fact.name} {' '.join(choice)}" for choice in choices)
        yield from ranked(1.1 + 0.05 * place, 0.06, instances)
        yield from follow_recurrence(fact, goal)


def instance_values(goal: PrintedGoal) -> Iterator[str]:
    """Variables, numbers of the goal, functions at them."""
    named = [one for one in goal.variables if not is_universe(one.type)]
    yield from (one.name for one in named if "→" not in one.type and one.type != "Prop")
    numbers = {0, 1, *(number for number in goal.numerals if number <= 30)}
    if "Nat" in goal.text or "Int" in goal.text:
        yield from map(str, sorted(numbers)[:4])
        yield from (f"({name} + 1)" for name in goal.of_type("Nat")[:2])
    functions = [one.name for one in named if one.type.count("→") == 1 and not one.type.endswith("Prop")]
    yield from (f"({name} {of})" for name in functions[:2] for of in ["0", *goal.of_type("Nat", "Int")[:2]])


def follow_recurrence(fact: Hypothesis, goal: PrintedGoal) -> Iterator[TacticMove]:
    """`f (n + 1) = … f n …`: at every number between those at which the goal names f."""
    name = goal.fresh("hs")[0]
    for function in dict.fromkeys(re.findall(r"(?<![\w.])([^\W\d]\w*) \(\w+ [+-] \d+\)", fact.type)):
        places = {int(at) for at in re.findall(rf"(?<![\w.]){function} (\d+)", goal.propositions)}
        steps = range(max(min(places, default=0) - 2, 0), max(places, default=0) + 2)
        if function in goal.types and places and len(steps) <= LONGEST_RECURRENCE:
            for cost, simp, end in ((0.4, "simp", "omega"), (0.7, "simp [*]", "first | omega | simp_all | grind")):
                values = [f"(have {name} := {fact.name} {at}); (try {simp} at {name})" for at in steps]
                yield TacticMove(cost, chain([*values, end]), 3 * LONG, closing=True)


# By relation of the target; {0} is Nat or Int.
LAWS_BY_SIGN: Mapping[str, tuple[str, ...]] = {
    "≤": (
        "{0}.mul_le_mul_left _", "{0}.mul_le_mul_right _", "{0}.mul_le_mul", "{0}.add_le_add", "{0}.pow_le_pow_left",
        "{0}.pow_le_pow_right", "{0}.le_trans (by assumption)", "{0}.le_of_dvd", "{0}.le_of_lt",
    ),
    "<": (
        "{0}.mul_lt_mul_of_pos_left", "{0}.mul_lt_mul_of_lt_of_le", "{0}.add_lt_add", "{0}.pow_lt_pow_left",
        "{0}.pow_lt_pow_right", "{0}.lt_of_lt_of_le (by assumption)", "{0}.lt_of_le_of_lt (by assumption)",
    ),
    "∣": (
        "{0}.dvd_add", "{0}.dvd_sub", "{0}.dvd_mul_left_of_dvd", "{0}.dvd_mul_right_of_dvd", "{0}.mul_dvd_mul",
        "{0}.pow_dvd_pow _", "{0}.dvd_gcd", "{0}.lcm_dvd", "{0}.dvd_trans (by assumption)",
    ),
    "=": ("{0}.dvd_antisymm", "{0}.le_antisymm", "{0}.eq_of_mul_eq_mul_left", "{0}.eq_of_mul_eq_mul_right"),
}  # fmt: skip
LAW_OPERATIONS = "+*^∣"
ONLY_OF_NATURALS = ("pow_le", "gcd", "mul_le_mul")
LAW_STEPS = (
    "{0}.mul_le_mul", "{0}.pow_le_pow_left", "{0}.pow_le_pow_right", "{0}.add_le_add", "{0}.le_of_lt", "{0}.dvd_add",
    "{0}.dvd_sub", "{0}.dvd_mul_left_of_dvd", "{0}.dvd_mul_right_of_dvd", "{0}.mul_dvd_mul", "{0}.dvd_gcd",
)  # fmt: skip


def propose_laws(goal: PrintedGoal) -> Iterator[TacticMove]:
    sign = {"≥": "≤", ">": "<"}.get(goal.connective, goal.connective)
    if sign not in LAWS_BY_SIGN or not any(one in goal.propositions for one in (*LAW_OPERATIONS, "gcd", "lcm")):
        return
    last = arithmetic.stated_relations(goal)[-1:]
    owner = last[0].kind if last else "Nat"
    if sign != "=":
        missing = ONLY_OF_NATURALS if owner == "Int" else ()
        laws = ", ".join(law.format(owner) for law in LAW_STEPS if not any(word in law for word in missing))
        yield TacticMove(0.8, f"(apply_rules [{laws}] <;> first | omega | (simp_all; done))", closing=True)
    yield from ranked(1.2, 0.05, (f"apply {law.format(owner)}" for law in LAWS_BY_SIGN[sign]))
