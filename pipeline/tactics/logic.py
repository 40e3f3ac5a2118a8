"""Moves that follow the connectives: what cannot be wrong at once, and what is a choice."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import syntax
from pipeline.tactics.goal import Hypothesis, PrintedGoal
from pipeline.tactics.move import QUICK, SHORT, Move
from pipeline.tactics.scripts import chain

NEGATIONS = (
    "Classical.not_imp, Classical.not_forall, not_exists, not_or, Classical.not_and_iff_not_or_not, Classical.not_not"
)


def forced(goal: PrintedGoal) -> Iterator[Move]:
    """Moves after which the goal is neither harder nor easier to prove; nothing else is tried beside them."""
    if goal.connective in ("∀", "→"):
        yield Move(0.0, "logic", "intros", QUICK)
    elif torn := [fact for fact in goal.facts if syntax.connective(fact.type) in ("∧", "∃")]:
        yield Move(0.0, "logic", take_apart(torn, goal), SHORT)
    elif goal.connective in ("∧", "↔"):
        yield Move(0.0, "logic", "constructor", QUICK)
    elif goal.connective in ("¬", "≠"):
        yield Move(0.0, "logic", f"intro {goal.fresh('hn')[0]}", QUICK)


def take_apart(facts: list[Hypothesis], goal: PrintedGoal) -> str:
    """`∧` and `∃` to the bottom, all facts at once."""
    names = iter(goal.fresh("hc", 64))
    return chain(f"obtain {pattern(fact.type, goal, names)} := {fact.name}" for fact in facts[:8])


def pattern(proposition: str, goal: PrintedGoal, names: Iterator[str]) -> str:
    sign = syntax.connective(proposition)
    if sign == "∧":
        inner = (pattern(part, goal, names) for part in syntax.parts(proposition, "∧"))
        return f"⟨{', '.join(inner)}⟩"
    if sign == "∃":
        bound, body = syntax.bound_variables(proposition)
        return f"⟨{', '.join([*(next(names) for _ in bound), pattern(body, goal, names)])}⟩"
    return next(names)


def propose(goal: PrintedGoal) -> Iterator[Move]:
    yield from about_target(goal)
    for place, fact in enumerate(goal.facts):
        for cost, tactic in about_fact(fact, goal):
            yield Move(cost + 0.05 * place, "logic", tactic, SHORT)
    yield from excluded_middle(goal)
    if "¬" in goal.said:
        yield Move(0.7, "logic", f"simp only [{NEGATIONS}] at *", SHORT)


def about_target(goal: PrintedGoal) -> Iterator[Move]:
    if goal.connective == "∨":
        yield Move(0.8, "logic", "left", QUICK)
        yield Move(0.8, "logic", "right", QUICK)
    if goal.target != "False":
        absurd = goal.fresh("hn")[0]
        yield Move(1.2, "logic", f"(apply Classical.byContradiction; intro {absurd})", QUICK)
    if goal.target != "False" and goal.facts:
        yield Move(2.2, "logic", "exfalso", QUICK)
    if goal.connective == "=" and any(one.type == "Prop" for one in goal.variables):
        yield Move(1.0, "logic", "apply propext", QUICK)


def about_fact(fact: Hypothesis, goal: PrintedGoal) -> Iterator[tuple[float, str]]:
    sign = syntax.connective(fact.type)
    if sign in ("∨", "↔"):
        yield 0.5, f"cases {fact.name}"
    if sign in ("→", "¬", "≠"):
        yield 0.9, f"apply {fact.name}"
    if sign == "→":
        yield 1.0, f"have {goal.fresh('hs')[0]} := {fact.name} ‹_›"
    if sign == "=" and "fun " in fact.type:
        for one in goal.variables[:4]:
            yield 0.6, f"have {goal.fresh('hs')[0]} := congrFun {fact.name} {one.name}"
    if sign == "∀":
        yield 1.1, f"apply {fact.name}"


def excluded_middle(goal: PrintedGoal) -> Iterator[Move]:
    """Cases on what stands in the goal as a part."""
    name = goal.fresh("hc")[0]
    have = {fact.type for fact in goal.facts}
    choices = [one for one in subpropositions(goal) if one not in have and len(one) <= 120 and "✝" not in one]
    for place, choice in enumerate(dict.fromkeys(choices[:6])):
        yield Move(0.6 + 0.15 * place, "logic", f"by_cases {name} : {choice}", SHORT)


def subpropositions(goal: PrintedGoal) -> Iterator[str]:
    """Variables that are propositions, then parts of facts and target, those of the target first."""
    yield from (one.name for one in goal.variables if one.type == "Prop" and syntax.mentions(one.name, goal.said))
    for text in [goal.target, *(fact.type for fact in goal.facts)]:
        sign = syntax.connective(text)
        if sign in syntax.CONNECTIVES:
            for part in syntax.parts(text, sign):
                yield syntax.negated(part) or syntax.bare(part)
        elif sign == "∃" and text != goal.target:
            yield syntax.bare(text)
        elif sign == "¬":
            yield syntax.negated(text)
