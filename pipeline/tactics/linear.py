"""What the equations determine: solved like a linear system, with every product of variables an unknown of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, Move
from pipeline.tactics.numbers import Monomial
from pipeline.tactics.scripts import chain

Row = dict[Monomial, Fraction]
MOST = 12  # equations


def propose(goal: PrintedGoal) -> Iterator[Move]:
    known = solved(goal)
    if known and (len(known) > 1 or arithmetic.nonlinear(goal)):
        put_in = [f"obtain rfl : {name} = {value} := by omega" for name, value in known.items()]
        yield Move(0.05, "linear", chain([*put_in, "try first | omega | (simp_all; done)"]), LONG)


def solved(goal: PrintedGoal) -> dict[str, int]:
    """Variables with the number that each of them must be, in the order in which they can be found."""
    rows = [
        {monomial: Fraction(factor) for monomial, factor in form.items()}
        for fact in arithmetic.equations(goal)[:MOST]
        if (form := numbers.difference(fact.relation, naturals=not arithmetic.integral(fact.relation, goal)))
    ]
    plain = set(goal.of_type("Nat", "Int"))
    found: dict[str, int] = {}
    while new := {name: value for name, value in determined(rows).items() if name in plain - found.keys()}:
        found |= new
        rows = [row for old in rows if (row := put_in(old, new))]
    return found


def determined(rows: list[Row]) -> dict[str, int]:
    """Unknowns that are one variable and have a whole number as their only value."""
    single = (row for row in reduced(rows) if len([monomial for monomial in row if monomial]) == 1)
    found = {}
    for row in single:
        (monomial,) = (monomial for monomial in row if monomial)
        value = -row.get((), Fraction(0)) / row[monomial]
        if len(monomial) == 1 and monomial[0][1] == 1 and value.denominator == 1:
            found[monomial[0][0]] = int(value)
    return found


def reduced(rows: list[Row]) -> list[Row]:
    """Each leading unknown in one row only."""
    done: list[Row] = []
    for one in rows:
        row = one
        for other in done:
            row = without(row, other)
        if any(row):
            done = [*(without(other, row) for other in done), row]
    return done


def without(row: Row, other: Row) -> Row:
    """The row less so much of the other that the other's leading unknown is gone."""
    lead = leading(other)
    if lead not in row:
        return row
    times = row[lead] / other[lead]
    sums = {monomial: row.get(monomial, Fraction(0)) - times * other.get(monomial, 0) for monomial in {**row, **other}}
    return {monomial: factor for monomial, factor in sums.items() if factor}


def leading(row: Row) -> Monomial:
    """The unknown of highest degree: what is left at the end then has variables by themselves."""
    return max((monomial for monomial in row if monomial), key=lambda one: (sum(times for _, times in one), one))


def put_in(row: Row, values: dict[str, int]) -> Row:
    found: Row = {}
    for monomial, factor in row.items():
        left = tuple((name, times) for name, times in monomial if name not in values)
        worth = math.prod(values.get(name, 1) ** times for name, times in monomial)
        found[left] = found.get(left, Fraction(0)) + factor * worth
    return {monomial: factor for monomial, factor in found.items() if factor}
