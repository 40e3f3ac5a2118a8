"""Finishers and connectives: tactics that prove a goal or nothing, and moves that follow its connectives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.tactics.text import syntax
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, QUICK, TacticMove, chain, ranked

FIRST_TACTICS = (("rfl", 0.3), ("omega", QUICK), ("(simp_all; done)", QUICK), ("grind -verbose", QUICK))

HUGE = re.compile(r"\^ (\d{5,}|\([^()]*\^)")


def finishing_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Moves that are tried before all others."""
    if HUGE.search(goal.propositions):
        return  # to compute it would take all there is
    if not goal.variables and not goal.facts:
        yield TacticMove(0.0, "decide", 0.4, closing=True)
        yield TacticMove(0.0, "decide +kernel", MIDDLE, closing=True)
    if goal.connective in ("∀", "→"):
        return  # the others are tried when all is introduced
    useless = set() if goal.connective in ("=", "↔", "≤", "") else {"rfl"}
    if "Nat" not in goal.text and "Int" not in goal.text and not goal.numerals:
        useless.add("omega")
    for tactic, budget in FIRST_TACTICS:
        if tactic not in useless:
            yield TacticMove(0.0, tactic, budget, closing=True)


# Tactics that prove a goal or nothing, where the first ones did not do: cost, tactic, seconds.
LONGER_TACTICS = (
    (0.9, "(simp_all +arith; done)", MIDDLE),
    (1.5, "grind -verbose +suggestions", MIDDLE),
    (1.2, "grind -verbose (splits := 20) (ematch := 10) (gen := 12)", 4.0),
    (2.0, "grind -verbose +splitIndPred", MIDDLE),
    (2.6, "grind -verbose (splits := 40) (ematch := 20) (gen := 20)", 2 * LONG),
)


def propose_finishers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Propose the finishing moves at length."""
    for cost, tactic, budget in LONGER_TACTICS:
        yield TacticMove(cost, tactic, budget, closing=True)
    if goal.target == "False":
        yield TacticMove(0.3, "contradiction", QUICK, closing=True)
    infinite = [one for one in goal.variables if not re.match(r"Fin |\(*Bool\)*$", one.type)]
    if goal.variables and not goal.facts and not infinite:
        yield TacticMove(0.2, "decide +revert", MIDDLE, closing=True)


NEGATIONS = (
    "Classical.not_imp, Classical.not_forall, not_exists, not_or, Classical.not_and_iff_not_or_not, Classical.not_not"
)


def forced_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Moves after which the goal is neither harder nor easier to prove; nothing else is tried beside them."""
    if goal.connective in ("∀", "→"):
        yield TacticMove(0.0, "intros", QUICK)
    elif torn := [fact for fact in goal.facts if syntax.connective(fact.type) in ("∧", "∃")]:
        names = goal.free_names("hc")  # all facts at once, to the bottom
        obtained = (f"obtain {pattern(fact.type, names)} := {fact.name}" for fact in torn[:8])
        yield TacticMove(0.0, chain(obtained))
    elif goal.connective in ("∧", "↔"):
        yield TacticMove(0.0, "constructor", QUICK)
    elif goal.connective in ("¬", "≠"):
        yield TacticMove(0.0, f"intro {goal.fresh('hn')[0]}", QUICK)


def pattern(proposition: str, names: Iterator[str]) -> str:
    sign = syntax.connective(proposition)
    if sign == "∧":
        parts = [pattern(part, names) for part in syntax.split_at(proposition, "∧")]
    elif sign == "∃":
        bound, body = syntax.bound_variables(proposition)
        parts = [*(next(names) for _ in bound), pattern(body, names)]
    else:
        return next(names)
    return f"⟨{', '.join(parts)}⟩"


def propose_logic(goal: PrintedGoal) -> Iterator[TacticMove]:
    yield from target_moves(goal)
    name = goal.fresh("hs")[0]
    for place, fact in enumerate(goal.facts):
        sign, later = syntax.connective(fact.type), 0.05 * place
        if sign in ("∨", "↔"):
            yield TacticMove(0.5 + later, f"cases {fact.name}")
        if sign in ("→", "¬", "≠", "∀"):
            yield TacticMove((1.1 if sign == "∀" else 0.9) + later, f"apply {fact.name}")
        if sign == "→":
            yield TacticMove(1.0 + later, f"have {name} := {fact.name} ‹_›")
        if sign == "=" and "fun " in fact.type:
            at = (f"have {name} := congrFun {fact.name} {one.name}" for one in goal.variables[:4])
            yield from ranked(0.6 + later, 0.0, at)
    name, stated = goal.fresh("hc")[0], {fact.type for fact in goal.facts}
    choices = [one for one in subpropositions(goal) if one not in stated and len(one) <= 120 and "✝" not in one]
    yield from ranked(0.6, 0.15, (f"by_cases {name} : {choice}" for choice in dict.fromkeys(choices[:6])))
    if "¬" in goal.propositions:
        yield TacticMove(0.7, f"simp only [{NEGATIONS}] at *")


def target_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective == "∨":
        cost = 0.4 if "∃" in goal.target else 0.8  # other sides grind would have chosen
        yield TacticMove(cost, "left", QUICK)
        yield TacticMove(cost, "right", QUICK)
    if goal.target != "False":
        yield TacticMove(1.2, f"(apply Classical.byContradiction; intro {goal.fresh('hn')[0]})", QUICK)
    if goal.target != "False" and goal.facts:
        yield TacticMove(2.2, "exfalso", QUICK)
    if goal.connective == "=" and any(one.type == "Prop" for one in goal.variables):
        yield TacticMove(1.0, "apply propext", QUICK)


def subpropositions(goal: PrintedGoal) -> Iterator[str]:
    """Variables that are propositions, then parts of facts and target, those of the target first."""
    propositions = (one.name for one in goal.variables if one.type == "Prop")
    yield from filter(goal.mentions, propositions)
    for text in [goal.target, *(fact.type for fact in goal.facts)]:
        sign = syntax.connective(text)
        if sign in syntax.CONNECTIVES:
            for part in syntax.split_at(text, sign):
                yield syntax.negated_part(part) or syntax.without_brackets(part)
        elif sign == "∃" and text != goal.target:
            yield syntax.without_brackets(text)
        elif sign == "¬":
            yield syntax.negated_part(text)
