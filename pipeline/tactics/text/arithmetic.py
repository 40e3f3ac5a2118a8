"""Statements of a goal about numbers: its relations as terms, and the types they are over."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipeline.tactics.text import syntax, terms
from pipeline.tactics.text.goal import PrintedGoal, result_type
from pipeline.tactics.text.terms import Leaf, Number, Operation, Polynomial, Relation, Term

TARGET = "⊢"


class StatedRelation(NamedTuple):
    """A relation, and the hypothesis that states it, or TARGET; `kind` of its numbers is Nat or Int."""

    name: str
    relation: Relation
    kind: str

    @property
    def form(self) -> Polynomial:
        """Left minus right."""
        return terms.difference(self.relation, self.kind)

    def swapped(self) -> StatedRelation:
        """`6 = x * y` as `x * y = 6`."""
        relation = Relation("=", self.relation.right, self.relation.left)
        return self._replace(name=f"{self.name}.symm", relation=relation)


@lru_cache(maxsize=512)
def stated_relations(goal: PrintedGoal) -> tuple[StatedRelation, ...]:
    """Relations between terms, among the facts and in the target."""
    stated = [*((fact.name, fact.type) for fact in goal.facts), (TARGET, goal.target)]
    return tuple(
        StatedRelation(name, relation, relation_kind(relation, goal))
        for name, text in stated
        if (relation := terms.read_relation(text))
    )


def fact_relations(goal: PrintedGoal, *signs: str) -> list[StatedRelation]:
    """The facts that are relations; of these `signs`, and not under a ¬, if any are given."""
    facts = [one for one in stated_relations(goal) if one.name != TARGET]
    return [one for one in facts if one.relation.sign in signs and one.relation.holds] if signs else facts


def equations(goal: PrintedGoal) -> list[StatedRelation]:
    return fact_relations(goal, "=")


def inequalities(goal: PrintedGoal) -> list[StatedRelation]:
    return fact_relations(goal, "≤", "<", "≥", ">")


def target_alternatives(goal: PrintedGoal) -> list[Relation | None]:
    """The parts of the target that ∨ joins; None for one that is no relation."""
    return [terms.read_relation(part) for part in syntax.split_at(goal.target, "∨")]


@lru_cache(maxsize=512)
def goal_subterms(goal: PrintedGoal) -> tuple[Term, ...]:
    """Terms within the relations, each once."""
    relations = [*(one.relation for one in stated_relations(goal)), *target_alternatives(goal)]
    sides = [side for one in relations if one for side in (one.left, one.right)]
    return tuple(dict.fromkeys(inner for side in sides for inner in terms.subterms(side)))


def operations(goal: PrintedGoal, sign: str) -> list[Operation]:
    return [term for term in goal_subterms(goal) if isinstance(term, Operation) and term.sign == sign]


def number_type(name: str, goal: PrintedGoal) -> str:
    """`Nat`, `Int` or another type: of a variable, of what a function gives."""
    if name.startswith("↑"):
        return "Int"
    return result_type(goal.types.get(name.split(" ", maxsplit=1)[0].lstrip("("), ""))


def term_kind(term: Term, goal: PrintedGoal) -> str:
    """Nat, or Int as soon as one thing in the term is."""
    if isinstance(term, Number):
        return "Int" if term.value < 0 else "Nat"
    if isinstance(term, Leaf):
        return "Int" if number_type(term.name, goal) == "Int" else "Nat"
    parts = term.arguments[:1] if term.sign == "^" else term.arguments
    return "Int" if term.sign == "neg" or any(term_kind(one, goal) == "Int" for one in parts) else "Nat"


def relation_kind(relation: Relation, goal: PrintedGoal) -> str:
    return "Int" if "Int" in (term_kind(relation.left, goal), term_kind(relation.right, goal)) else "Nat"


def moduli(goal: PrintedGoal) -> list[int]:
    """Numbers that something is divided by: `x % 7`, `7 ∣ x`."""
    # also in propositions that are more than one relation
    words = syntax.without_brackets(goal.propositions).replace("(", " ").replace(")", " ").split()
    digits = [after for sign, after in pairwise(words) if sign == "%"]
    digits += [before.lstrip("¬") for before, sign in pairwise(words) if sign == "∣"]
    found = {int(one) for one in digits if one.isdigit()}
    for one in [*goal_subterms(goal), *(one.relation for one in stated_relations(goal))]:
        match one:
            case Operation("%", (_, Number(number))) | Relation("∣", Number(number)):
                found.add(number)
    return sorted(number for number in found if number > 1)


def is_nonlinear(goal: PrintedGoal) -> bool:
    return any(terms.leaves(term) for sign in "*^" for term in operations(goal, sign))
