"""Sequences with a linear recurrence whose values repeat, in themselves or modulo a number: proved for all periods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.goal import Hypothesis, PrintedGoal, result_type
from pipeline.tactics.text.tactic import LONG, TacticMove, chain


class Recurrence(NamedTuple):
    """`f (n + top) = sum of factor * f (n + shift), + constant` for n from `start` on."""

    name: str
    function: str
    top: int
    shifts: dict[int, int]
    constant: int
    start: int
    conditional: bool

    @property
    def low(self) -> int:
        return min(self.shifts)

    @property
    def order(self) -> int:
        return self.top - self.low

    @property
    def first(self) -> int:
        """The first place that another value is needed for."""
        return self.start + self.low


class RecurrenceProof(NamedTuple):
    """Text of the proof; `key` is the name of what holds for all periods."""

    rule: Recurrence
    values: dict[int, int]
    begin: int
    period: int
    modulus: int
    key: str

    @property
    def mod(self) -> str:
        return f" % {self.modulus}" if self.modulus else ""

    def term(self, at: str) -> str:
        """The sequence at a place, modulo the number."""
        return f"{self.rule.function} ({at}){self.mod}"

    def value_claim(self, at: str, place: int) -> str:
        value = self.values[place]
        return f"{self.term(at)} = {value % self.modulus if self.modulus else value}"

    def claim_for_all(self) -> str:
        """Claim for all periods, proved by induction: the values of one from those of the one before."""
        rule, period, places = self.rule, self.period, range(self.begin, self.begin + self.period)
        given = range(rule.first, rule.first + rule.order)
        first = [f"have {self.key}s{at} : {self.value_claim(str(at), at)} := by omega" for at in given]
        first += [self.step("", at, f"{self.key}s") for at in range(given.stop, self.begin + period)]
        claim = " ∧ ".join(self.value_claim(f"{period} * q + {at}", at) for at in places)
        zero = f"exact ⟨{', '.join(f'{self.key}s{at}' for at in places)}⟩"
        names = ", ".join(f"{self.key}e{at}" for at in places)
        steps = [self.step(f"{period} * q + ", at + period, f"{self.key}e") for at in places]
        same = (f"show {period} * (q + 1) + {at} = {period} * q + {at + period} by omega" for at in places)
        ended = (f"(by rw [{shown}]; exact {self.key}e{at + period})" for at, shown in zip(places, same, strict=True))
        succ = "; ".join([f"obtain ⟨{names}⟩ := ih", *steps, f"exact ⟨{', '.join(ended)}⟩"])
        proof = f"intro q; induction q with | zero => ({zero}) | succ q ih => ({succ})"
        return f"have {self.key} : ∀ q : Nat, {claim} := by {chain([self.shifted_rule(), *first, proof])}"

    def shifted_rule(self) -> str:
        """The recurrence from one place on, counted from where it first looks."""
        rule, low = self.rule, self.rule.low
        at = "m" if low >= 0 else f"m + {-low}"
        instance = f"{rule.name} ({at})" + (" (by omega)" if rule.conditional else "")
        pairs = [(shift, f"{at} {'-' if shift < 0 else '+'} {abs(shift)}") for shift in [*rule.shifts, rule.top]]
        same = " ∧ ".join(f"{rule.function} ({text}) = {rule.function} (m + {shift - low})" for shift, text in pairs)
        proof = f"(intro m hm; have h := {instance}; have hs : {same} := ⟨{', '.join(['rfl'] * len(pairs))}⟩; omega)"
        return f"have {self.key}r : ∀ m : Nat, {rule.first} ≤ m → {self.relation('m + ', 0)} := by {proof}"

    def relation(self, before: str, at: int) -> str:
        """A value by those before it; `at` is the first of these."""
        rule = self.rule
        ordered = ((f"{before}{at + shift - rule.low}", factor) for shift, factor in sorted(rule.shifts.items()))
        parts = [f"({factor}) * ({self.term(place)})" for place, factor in ordered]
        return f"{self.term(f'{before}{at + rule.order}')} = ({' + '.join(parts)} + ({rule.constant})){self.mod}"

    def step(self, before: str, at: int, stem: str) -> str:
        """The value at a place from those before it."""
        low = at - self.rule.order
        within = f"(Nat.le_trans (by decide : {self.rule.first} ≤ {low}) (Nat.le_add_left {low} _))"
        reached = within if before else "(by decide)"
        relation = f"(show {self.relation(before, low)} from {self.key}r ({before}{low}) {reached})"
        needed = (f"{stem}{low + shift - self.rule.low}" for shift in self.rule.shifts)
        computed = f"(by rw [{', '.join(needed)}]; first | done | rfl)"
        return f"have {stem}{at} : {self.value_claim(f'{before}{at}', at)} := {relation}.trans {computed}"

    def at(self, asked: str, place: int) -> str:
        """The value that the goal asks for."""
        part = ".2" * place + (".1" if place < self.period - 1 else "")
        said = self.value_claim(asked, self.begin + place)
        name = f"have {self.key}a{asked} : {said}"
        if asked.isdigit():
            return f"{name} := ({self.key} {(int(asked) - self.begin) // self.period}){part}"
        whole = f"have hx : {asked} = {self.period} * ({asked} / {self.period}) + {self.begin + place} := (by omega)"
        return f"{name} := by ({whole}; rw [hx]; exact ({self.key} _){part})"


LONGEST_CYCLE = 64
LATEST_START = 8  # where repeating may begin
CONDITION = re.compile(r"^(\w+) (≥|>) (\d+)$")


def propose_sequences(goal: PrintedGoal) -> Iterator[TacticMove]:
    for fact in goal.facts:
        rule = read_recurrence(fact, goal) if syntax.connective(fact.type) == "∀" else None
        if rule and (values := sequence_values(rule, goal)):
            proofs = (repetition_proof(rule, values, modulus, goal) for modulus in [0, *arithmetic.moduli(goal)])
            if tactic := next(filter(None, proofs), ""):
                yield TacticMove(0.1, tactic, 3 * LONG, closing=True)


def read_recurrence(fact: Hypothesis, goal: PrintedGoal) -> Recurrence | None:
    head, body = syntax.bound_variables(fact.type)
    given, *rest = syntax.split_at(body, "→")
    at = head[0] if head else ""
    condition = " ".join(head) if len(head) == 3 else given if rest else f"{at} ≥ 0"
    limit = CONDITION.match(condition)
    match terms.read_relation(rest[-1] if rest else body):
        case terms.Relation("=", terms.Leaf(leaf), right) if limit and len(rest) <= 1 and limit[1] == at:
            left = sequence_place(leaf, at)
        case _:
            return None
    linear = terms.linear_form(right, result_type(goal.types.get(left[0], ""))) if left else None
    places = {sequence_place(leaf, at): factor for leaf, factor in linear[0].items()} if linear else {}
    if left is None or linear is None or {place and place[0] for place in places} != {left[0]}:
        return None
    shifts = {place[1]: factor for place, factor in places.items() if place}
    start, conditional = int(limit[3]) + (limit[2] == ">"), bool(rest) or len(head) == 3
    ordered = max(shifts) < left[1] and start + min(shifts) >= 0
    return Recurrence(fact.name, *left, shifts, linear[1], start, conditional) if ordered else None


def sequence_place(leaf: str, at: str) -> tuple[str, int] | None:
    """`f (n + 2)` as f and 2."""
    found = re.fullmatch(rf"(\w+) \(?{re.escape(at)}(?: ([+-]) (\d+)\)?)?", leaf)
    return (found[1], int(found[3] or 0) * (-1 if found[2] == "-" else 1)) if found else None


def repetition_proof(rule: Recurrence, values: dict[int, int], modulus: int, goal: PrintedGoal) -> str:
    begin, period = value_cycle(rule, values, modulus)
    asked = list(dict.fromkeys(re.findall(rf"(?<![\w.]){rule.function} (\w+)", goal.target)))
    places = [(each, at) for each in asked if (at := place_in_period(each, begin, period, goal)) is not None]
    if not asked or len(places) < len(asked):
        return ""
    writer = RecurrenceProof(rule, values, begin, period, modulus, goal.fresh("hper")[0])
    return chain([writer.claim_for_all(), *(writer.at(each, at) for each, at in places), "omega"])


def sequence_values(rule: Recurrence, goal: PrintedGoal) -> dict[int, int]:
    """Values as far as a cycle may reach, from those that the goal states; none if it states too few."""
    found: dict[int, int] = {}
    for fact in arithmetic.equations(goal):
        match fact.relation:
            case terms.Relation("=", terms.Leaf(leaf), terms.Number(number)):
                function, _, at = leaf.partition(" ")
                if function == rule.function and at.isdigit():
                    found[int(at)] = number
    begun = range(rule.first, rule.first + rule.order)
    if not all(place in found for place in begun):
        return {}
    for place in range(begun.stop, begun.stop + 2 * (LATEST_START + LONGEST_CYCLE)):
        before = (factor * found[place - rule.top + shift] for shift, factor in rule.shifts.items())
        found.setdefault(place, rule.constant + sum(before))
    return found


def value_cycle(rule: Recurrence, values: dict[int, int], modulus: int) -> tuple[int, int]:
    """Place from which values repeat, and their period; 0 where none was seen."""
    seen: dict[tuple[int, ...], int] = {}
    for at in range(rule.first, rule.first + LATEST_START + LONGEST_CYCLE):
        window = tuple(values[at + step] % modulus if modulus else values[at + step] for step in range(rule.order))
        if window in seen and at - seen[window] <= LONGEST_CYCLE:
            return seen[window], at - seen[window]
        seen.setdefault(window, at)
    return 0, 0


def place_in_period(asked: str, begin: int, period: int, goal: PrintedGoal) -> int | None:
    """Place within the period, None where there is no period, or the place is not known."""
    if asked.isdigit():
        return (int(asked) - begin) % period if period and int(asked) >= begin else None
    for fact in arithmetic.equations(goal):
        match fact.relation:
            case terms.Relation("=", terms.Operation("%", (terms.Leaf(name), terms.Number(of))), terms.Number(left)):
                if name == asked and period and of % period == 0 and begin == 0:
                    return left % period
    return None
