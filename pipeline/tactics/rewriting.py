"""Rewriting: with the goal's own equations, by simp, by the laws of arithmetic, through both sides of an equation."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import syntax
from pipeline.tactics.goal import Hypothesis, PrintedGoal
from pipeline.tactics.move import MIDDLE, QUICK, SHORT, Move

DISTRIBUTED = "{0}.mul_add, {0}.add_mul, {0}.pow_succ, {0}.pow_zero, {0}.mul_sub, {0}.sub_mul"
REORDERED = "{0}.mul_comm, {0}.mul_left_comm, {0}.mul_assoc, {0}.add_comm, {0}.add_left_comm, {0}.add_assoc"


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, fact in enumerate(goal.facts):
        for cost, tactic in with_fact(fact, goal):
            yield Move(cost + 0.05 * place, "rewriting", tactic, SHORT)
    yield Move(0.5, "rewriting", "simp_all", SHORT)
    yield from arithmetic(goal)
    yield from sides(goal)


def with_fact(fact: Hypothesis, goal: PrintedGoal) -> Iterator[tuple[float, str]]:
    if syntax.connective(fact.type) != "=":
        if syntax.connective(fact.type) == "∀" and "=" in fact.type:
            yield 1.2, f"rw [{fact.name}]"
            yield 1.5, f"simp [{fact.name}]"
        return
    if any(side in goal.types for side in syntax.parts(fact.type, "=")):
        yield 0.3, f"subst {fact.name}"
    yield 1.2, f"rw [{fact.name}]"
    yield 1.6, f"rw [← {fact.name}]"


def arithmetic(goal: PrintedGoal) -> Iterator[Move]:
    if "^" not in goal.said and "*" not in goal.said:
        return
    for kind in ("Nat", "Int"):
        if goal.of_type(kind):
            out, order = DISTRIBUTED.format(kind), REORDERED.format(kind)
            yield Move(1.0, "rewriting", f"(simp_all [{out}, {order}]; done)", MIDDLE, closing=True)
            yield Move(1.1, "rewriting", f"(simp [{out}] at *; omega)", MIDDLE, closing=True)
            yield Move(1.3, "rewriting", f"simp [{out}] at *", MIDDLE)
            if "^" in goal.said:
                yield Move(
                    0.7, "rewriting", f"simp only [{kind}.pow_succ, {kind}.pow_zero, {kind}.one_mul] at *", SHORT
                )


def sides(goal: PrintedGoal) -> Iterator[Move]:
    if goal.connective != "=":
        return
    if "→" in goal.text or "fun" in goal.target:
        yield Move(0.6, "rewriting", f"funext {goal.fresh('x')[0]}", QUICK)
    if any(kind in goal.text for kind in ("List", "Array", "×", "Option")):
        yield Move(1.0, "rewriting", "ext", QUICK)
    yield Move(2.0, "rewriting", "congr 1", QUICK)
    if goal.of_type("Nat"):
        yield Move(2.2, "rewriting", "apply Nat.le_antisymm", QUICK)
        yield Move(2.4, "rewriting", "apply Nat.dvd_antisymm", QUICK)
    elif goal.of_type("Int"):
        yield Move(2.2, "rewriting", "apply Int.le_antisymm", QUICK)
