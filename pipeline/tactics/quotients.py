"""Polynomials that divide each other as polynomials do: the quotient is worked out and given."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import numbers, syntax, terms
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import MIDDLE, Move
from pipeline.tactics.numbers import Monomial, Polynomial
from pipeline.tactics.witnesses import text

MOST = 60  # steps of a division


def propose(goal: PrintedGoal) -> Iterator[Move]:
    if goal.connective != "∣":
        return
    sides = [terms.read_term(side) for side in syntax.parts(goal.target, "∣")]
    if len(sides) == 2 and sides[0] and sides[1] and terms.leaves(sides[0]):
        naturals = not goal.of_type("Int")
        by, whole = (numbers.polynomial(side, naturals=naturals) for side in sides if side)
        found = quotient(whole, by)
        if found is not None and (not naturals or min(found.values(), default=0) >= 0):
            yield Move(0.1, "quotients", f"exact ⟨{text(found)}, by grind -verbose⟩", MIDDLE, closing=True)


def quotient(whole: Polynomial, by: Polynomial) -> Polynomial | None:
    """None where something would be left."""
    found: Polynomial = {}
    for _ in range(MOST):
        if not whole:
            return found
        lead, under = leading(whole), leading(by)
        step = over(lead, under)
        if step is None or whole[lead] % by[under]:
            return None
        part = {step: whole[lead] // by[under]}
        found = numbers.added(found, part)
        whole = numbers.added(whole, numbers.multiplied(part, by), -1)
    return None


def leading(form: Polynomial) -> Monomial:
    """In the order of the dictionary, which products keep."""
    names = numbers.names(form)
    return max(form, key=lambda one: tuple(dict(one).get(name, 0) for name in names))


def over(monomial: Monomial, under: Monomial) -> Monomial | None:
    left = dict(monomial)
    for name, times in under:
        left[name] = left.get(name, 0) - times
    return None if min(left.values(), default=0) < 0 else tuple(sorted((name, at) for name, at in left.items() if at))
