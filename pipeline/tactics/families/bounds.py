"""Bounds for variables, and what follows by looking at every number within them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, TacticMove, case_split, chain, decide_below, one_of, ranked
from pipeline.tactics.text.terms import Leaf, Number, Relation

MOST_POINTS = 12_000
MOST_CASES = 40
CLOSERS = "first | omega | (simp_all; done) | grind -verbose"


class Range(NamedTuple):
    """Bounds that the facts state for a variable outright; both ends belong to it."""

    low: int | None
    high: int | None

    @property
    def size(self) -> int:
        return 10**9 if self.low is None or self.high is None else max(self.high - self.low + 1, 0)


def propose_bounds(goal: PrintedGoal) -> Iterator[TacticMove]:
    naturals, integers = goal.of_type("Nat"), goal.of_type("Int")
    ranges = {name: bounds_of(name, goal) for name in [*naturals, *integers]}
    yield from decide_points(goal, naturals, ranges) if not integers else shift_to_naturals(goal, integers, ranges)
    he = goal.fresh("he")[0]
    for place, (name, within_it) in enumerate(ranges.items()):
        if (size := within_it.size) <= MOST_CASES:
            values = range(within_it.low or 0, (within_it.high or 0) + 1)
            apart = f"({case_split(he, len(values), 'rfl')}) <;> ({CLOSERS})"
            if len(values) <= 1:
                apart = f"first | omega | (subst {he}; {CLOSERS})"
            tactic = chain([one_of(he, values, name), apart])
            yield TacticMove(0.8 + 0.005 * size + 0.1 * place, tactic, MIDDLE + 0.15 * len(values), closing=True)
    yield from bound_by_products(goal, naturals, integers, ranges)


def bounds_of(name: str, goal: PrintedGoal) -> Range:
    low, high = [0] if goal.types.get(name) == "Nat" else [], list[int]()
    for one in arithmetic.fact_relations(goal):
        below, above = stated_limits(one.relation, name)
        low += below
        high += [*above, *implied_bounds(one.relation, name, goal)]
    return Range(max(low, default=None), min(high, default=None))


def implied_bounds(relation: Relation, name: str, goal: PrintedGoal) -> Iterator[int]:
    """`2 * x + y ≤ 12` of naturals: no part of a sum is above the whole."""
    if relation.sign not in ("=", "≤", "<") or not relation.holds or not isinstance(relation.right, Number):
        return
    linear = terms.linear_form(relation.left)
    if linear is None or len(linear[0]) < 2 or name not in linear[0] or min(linear[0].values()) <= 0:
        return
    if all(arithmetic.number_type(one, goal) == "Nat" for one in linear[0]):
        yield (relation.right.value - (relation.sign == "<") - linear[1]) // linear[0][name]


def stated_limits(relation: Relation, name: str) -> tuple[list[int], list[int]]:
    """`3 ≤ x`, `x < 7` and the like, also under a ¬."""
    sign = relation.sign if relation.holds else {"≤": ">", "<": "≥", ">": "≤", "≥": "<"}.get(relation.sign, "")
    match (relation.left, sign, relation.right):
        case (Leaf(of), "≤" | "<", Number(number)) | (Number(number), "≥" | ">", Leaf(of)) if of == name:
            return [], [number - (sign in "<>")]
        case (Leaf(of), "≥" | ">", Number(number)) | (Number(number), "≤" | "<", Leaf(of)) if of == name:
            return [number + (sign in "<>")], []
    return [], []


def decide_points(goal: PrintedGoal, naturals: Sequence[str], ranges: dict[str, Range]) -> Iterator[TacticMove]:
    """Let the kernel look at all points, where every variable has a bound, and neither points nor numbers are many."""
    points = math.prod(ranges[name].size for name in naturals)
    others = [one for one in goal.variables if one.name not in naturals and goal.mentions(one.name)]
    too_large = max(goal.numerals, default=0) >= 10**12 or any(sign in goal.propositions for sign in ("∀", "∃", "fun "))
    if not naturals or others or points > MOST_POINTS or too_large:
        return
    facts = [fact for fact in goal.facts if any(syntax.mentions(name, fact.type) for name in naturals)]
    claim = " → ".join([*(f"({fact.type})" for fact in facts), f"({goal.target})"])
    claim = re.sub(r"↑(\w+)", r"(\1 : Int)", claim)  # Lean prints `↑k`, and would not know what that is to become
    limits = {name: (ranges[name].high or 0) + 1 for name in sorted(naturals, key=lambda name: ranges[name].size)}
    checked, proof = decide_below(claim, limits, goal.fresh("key")[0], ["(by omega)"] * len(limits))
    closing = f"exact {proof} {' '.join(fact.name for fact in facts)}"
    yield TacticMove(0.05, chain([checked, closing]), MIDDLE + 0.001 * points, closing=True)


def shift_to_naturals(goal: PrintedGoal, integers: Sequence[str], ranges: dict[str, Range]) -> Iterator[TacticMove]:
    """Bounded integers as naturals counted from their lower bounds."""
    if not integers or goal.connective == "∃" or any(ranges[name].size > 10**6 for name in integers):
        return
    lines = []
    for name, k, hk in zip(integers, goal.free_names("k"), goal.free_names("hk"), strict=False):
        low, size = ranges[name].low, ranges[name].size
        shifted = f"{name} = {low} + ({k} : Int) := ⟨({name} - ({low})).toNat, by omega⟩"
        lines += [f"obtain ⟨{k}, rfl⟩ : ∃ {k} : Nat, {shifted}", f"have {hk} : {k} ≤ {max(size - 1, 0)} := by omega"]
    yield TacticMove(0.05, chain(lines), MIDDLE)


def bound_by_products(
    goal: PrintedGoal, naturals: Sequence[str], integers: Sequence[str], ranges: dict[str, Range]
) -> Iterator[TacticMove]:
    """Bounds that follow from the equations by multiplying: numbers of these and their roots, the small ones first."""
    if not arithmetic.is_nonlinear(goal) or not arithmetic.equations(goal) or goal.connective == "∃":
        return
    large = max((number for number in goal.numerals if number <= 10**7), default=0)
    guessed = {terms.floor_root(large, degree) + 1 for degree in (2, 3)} | {n for n in goal.numerals if 4 < n <= 500}
    limits = sorted(number for number in guessed if number > 1)[:5]
    free = [name for name in naturals if ranges[name].high is None]
    if free and not integers:
        named, proof = [*zip(goal.fresh("hb", len(free)), free, strict=True)], natural_bound(goal)
        bounded = (chain(f"have {h} : {name} ≤ {limit} := by {proof}" for h, name in named) for limit in limits)
        yield from ranked(0.4, 0.08, bounded, LONG)
    if open_ended := [name for name in integers if ranges[name].size > 10**6]:
        yield from ranked(0.5, 0.08, (chain(integer_bounds(open_ended, limit, goal)) for limit in limits), LONG)


def natural_bound(goal: PrintedGoal) -> str:
    products = [one.name for one in arithmetic.equations(goal) if getattr(one.relation.left, "sign", "") == "*"]
    divides = [f"exact Nat.le_of_dvd (by omega) ⟨_, ({name}).symm⟩" for name in products]
    swapped = [f"exact Nat.le_of_dvd (by omega) ⟨_, (by rw [Nat.mul_comm]; exact ({name}).symm)⟩" for name in products]
    squares = "(have hsq := Nat.mul_le_mul hlt hlt); (have hcb := Nat.mul_le_mul hsq hlt); grind -verbose"
    absurd = f"(apply Nat.le_of_not_lt; intro hlt; {squares})"
    return f"first | {' | '.join(['omega', *divides, *swapped, absurd, 'grind -verbose'])}"


def integer_bounds(names: Sequence[str], limit: int, goal: PrintedGoal) -> Iterator[str]:
    """Proof of both bounds for each: what is not, has a square and a cube that are too large."""
    multiples = "; ".join(
        f"(try (have hq{place} : {one} * 1 ≤ {one} * {other} := Int.mul_le_mul_of_nonneg_left (by omega) (by omega)))"
        for place, (one, other) in enumerate(permutations(goal.of_type("Int")[:3], 2))
    )
    squares = "(have hsq := Int.mul_le_mul hl hl (by omega) (by omega))"
    for name, low, high in zip(names, goal.free_names("hl"), goal.free_names("hu"), strict=False):
        sides = []
        for side in (f"-{name}", name):
            above = f"(have hl : {limit} ≤ {side} := by omega)"
            cubes = f"(have hcb := Int.mul_le_mul_of_nonneg_right hsq (show 0 ≤ {side} by omega))"
            absurd = f"(apply Int.le_of_not_gt; intro hlt; {above}; {squares}; {cubes}; grind -verbose)"
            sides.append(f"(focus (first | omega | {absurd}))")
        both = f"(apply And.intro; {'; '.join(sides)})"
        proof = f"({multiples}; {both})" if multiples else both
        yield f"obtain ⟨{low}, {high}⟩ : -{limit} ≤ {name} ∧ {name} ≤ {limit} := by {proof}"
