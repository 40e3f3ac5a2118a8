"""Sequences with a linear recurrence whose values repeat, in themselves or modulo a number: proved for all periods."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.tactics import arithmetic, numbers, syntax, terms
from pipeline.tactics.goal import Hypothesis, PrintedGoal, result
from pipeline.tactics.move import LONG, Move
from pipeline.tactics.scripts import chain
from pipeline.tactics.sequence_proofs import Recurrence, Writer

LONGEST = 64  # of a period
LATEST = 8  # where repeating may begin
CONDITION = re.compile(r"^(\w+) (≥|>) (\d+)$")


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for fact in goal.facts:
        if syntax.connective(fact.type) == "∀" and (rule := read(fact, goal)):
            for modulus in [0, *arithmetic.moduli(goal)]:
                if tactic := repeated(rule, modulus, goal):
                    yield Move(0.1, "sequences", tactic, 3 * LONG, closing=True)
                    break


def read(fact: Hypothesis, goal: PrintedGoal) -> Recurrence | None:
    head, body = syntax.bound_variables(fact.type)
    given, *rest = syntax.parts(body, "→")
    condition = " ".join(head) if len(head) == 3 else given if rest else f"{head[0]} ≥ 0"
    limit = CONDITION.match(condition)
    relation = terms.read_relation(rest[-1] if rest else body)
    if not limit or len(rest) > 1 or relation is None or relation.sign != "=" or limit[1] != head[0]:
        return None
    start = int(limit[3]) + (limit[2] == ">")
    return of_relation(fact.name, relation, head[0], start, goal, conditional=bool(rest) or len(head) == 3)


def of_relation(
    name: str, relation: terms.Relation, at: str, start: int, goal: PrintedGoal, *, conditional: bool
) -> Recurrence | None:
    if not isinstance(relation.left, terms.Leaf) or not (left := placed(relation.left.name, at)):
        return None
    form = numbers.polynomial(relation.right, naturals=result(goal.types.get(left[0], "")) == "Nat")
    linear = numbers.linear(form)
    places = {leaf: placed(leaf, at) for leaf in linear[0]} if linear else {}
    if linear is None or not places or any(place is None or place[0] != left[0] for place in places.values()):
        return None
    shifts = {place[1]: linear[0][leaf] for leaf, place in places.items() if place}
    ordered = max(shifts) < left[1] and start + min(shifts) >= 0
    return Recurrence(name, left[0], left[1], shifts, linear[1], start, conditional) if ordered else None


def placed(leaf: str, at: str) -> tuple[str, int] | None:
    """`f (n + 2)` as f and 2."""
    found = re.fullmatch(rf"(\w+) \(?{re.escape(at)}(?: ([+-]) (\d+)\)?)?", leaf)
    return (found[1], int(found[3] or 0) * (-1 if found[2] == "-" else 1)) if found else None


def repeated(rule: Recurrence, modulus: int, goal: PrintedGoal) -> str:
    values = start_values(rule, goal)
    if not values:
        return ""
    begin, period = cycle(rule, values, modulus)
    asked = list(dict.fromkeys(re.findall(rf"(?<![\w.]){rule.function} (\w+)", goal.target)))
    places = [(each, at) for each in asked if (at := place(each, begin, period, goal)) is not None]
    if not period or not asked or len(places) < len(asked):
        return ""
    writer = Writer(rule, values, begin, period, modulus, goal.fresh("hper")[0])
    return chain([writer.general(), *(writer.at(each, at) for each, at in places), "omega"])


def start_values(rule: Recurrence, goal: PrintedGoal) -> dict[int, int]:
    """Enough values to go on from; none otherwise."""
    found: dict[int, int] = {}
    for fact in arithmetic.equations(goal):
        match fact.relation:
            case terms.Relation("=", terms.Leaf(leaf), terms.Number(number)):
                function, _, at = leaf.partition(" ")
                if function == rule.function and at.isdigit():
                    found[int(at)] = number
    return found if all(rule.first + step in found for step in range(rule.order)) else {}


def cycle(rule: Recurrence, values: dict[int, int], modulus: int) -> tuple[int, int]:
    """From which place on, and with which period, values repeat; 0 where none was seen.  `values` grows."""
    seen: dict[tuple[int, ...], int] = {}
    for at in range(rule.first, rule.first + LATEST + LONGEST):
        follow(rule, values, at + rule.order)
        window = tuple(values[at + step] % modulus if modulus else values[at + step] for step in range(rule.order))
        if window in seen and at - seen[window] <= LONGEST:
            follow(rule, values, seen[window] + 2 * (at - seen[window]) + rule.order)
            return seen[window], at - seen[window]
        seen.setdefault(window, at)
    return 0, 0


def follow(rule: Recurrence, values: dict[int, int], until: int) -> None:
    for at in range(rule.first + rule.order, until + 1):
        before = at - rule.top
        if at not in values:
            values[at] = rule.constant + sum(factor * values[before + shift] for shift, factor in rule.shifts.items())


def place(asked: str, begin: int, period: int, goal: PrintedGoal) -> int | None:
    """Which of the period's places it is at."""
    if asked.isdigit():
        return (int(asked) - begin) % period if period and int(asked) >= begin else None
    for fact in arithmetic.equations(goal):
        match fact.relation:
            case terms.Relation("=", terms.Operation("%", (terms.Leaf(name), terms.Number(of))), terms.Number(left)):
                if name == asked and period and of % period == 0 and begin == 0:
                    return left % period
    return None
