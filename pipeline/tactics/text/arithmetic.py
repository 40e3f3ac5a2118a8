"""Statements of a goal about numbers: its relations as terms, and the types they are over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipeline.tactics.text import syntax, terms
from pipeline.tactics.text.goal import PrintedGoal, result_type
from pipeline.tactics.text.terms import Leaf, Number, Operation, Relation, Term

TARGET = "⊢"


class StatedRelation(NamedTuple):
    """A relation, and the hypothesis that states it, or TARGET."""

    name: str
    relation: Relation


@lru_cache(maxsize=512)
def stated_relations(goal: PrintedGoal) -> tuple[StatedRelation, ...]:
    """Relations between terms, among the facts and in the target."""
    found = [StatedRelation(fact.name, one) for fact in goal.facts if (one := terms.read_relation(fact.type))]
    target = terms.read_relation(goal.target)
    return (*found, *([StatedRelation(TARGET, target)] if target else []))


def fact_relations(goal: PrintedGoal) -> list[StatedRelation]:
    return [one for one in stated_relations(goal) if one.name != TARGET]


def equations(goal: PrintedGoal) -> list[StatedRelation]:
    return [one for one in fact_relations(goal) if one.relation.sign == "=" and one.relation.holds]


def all_sides(goal: PrintedGoal) -> Iterator[Term]:
    alternatives = (terms.read_relation(part) for part in syntax.split_at(goal.target, "∨"))
    for relation in [*(one.relation for one in stated_relations(goal)), *alternatives]:
        if relation:
            yield from (relation.left, relation.right)


@lru_cache(maxsize=512)
def goal_subterms(goal: PrintedGoal) -> tuple[Term, ...]:
    """Terms within the relations, each once."""
    return tuple(dict.fromkeys(inner for side in all_sides(goal) for inner in terms.subterms(side)))


def number_type(name: str, goal: PrintedGoal) -> str:
    """`Nat`, `Int` or another type: of a variable, of what a function gives."""
    if name.startswith("↑"):
        return "Int"
    return result_type(goal.types.get(name.split(" ", maxsplit=1)[0].lstrip("("), ""))


def is_integral(term: Term, goal: PrintedGoal) -> bool:
    """True if the term is an Int: as soon as one thing in it is."""
    if isinstance(term, Number):
        return term.value < 0
    if isinstance(term, Leaf):
        return number_type(term.name, goal) == "Int"
    if term.sign in ("neg",):
        return True
    return any(is_integral(one, goal) for one in (term.arguments[:1] if term.sign == "^" else term.arguments))


def is_integral_relation(relation: Relation, goal: PrintedGoal) -> bool:
    return is_integral(relation.left, goal) or is_integral(relation.right, goal)


def moduli(goal: PrintedGoal) -> list[int]:
    """Numbers that something is divided by: `x % 7`, `7 ∣ x`."""
    found = {number for term in goal_subterms(goal) if (number := divisor_of(term))}
    found |= {number for one in stated_relations(goal) if (number := left_divisor(one.relation))}
    return sorted(number for number in found | moduli_in_text(goal.propositions) if number > 1)


def moduli_in_text(said: str) -> set[int]:
    """Moduli in a proposition that is more than one relation."""
    words = syntax.without_brackets(said).replace("(", " ").replace(")", " ").split()
    pairs = list(pairwise(words))
    divisors = {int(after) for sign, after in pairs if sign == "%" and after.isdigit()}
    return divisors | {
        int(before.lstrip("¬")) for before, sign in pairs if sign == "∣" and before.lstrip("¬").isdigit()
    }


def divisor_of(term: Term) -> int:
    match term:
        case Operation("%", (_, Number(number))):
            return number
    return 0


def left_divisor(relation: Relation) -> int:
    match relation:
        case Relation("∣", Number(number)):
            return number
    return 0


def is_nonlinear(goal: PrintedGoal) -> bool:
    return any(
        isinstance(term, Operation) and term.sign in "*^" and len(terms.leaves(term)) for term in goal_subterms(goal)
    )
