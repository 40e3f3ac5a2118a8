"""Tactic text that proves by induction what the values of a recurrence are, period after period."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.tactics.scripts import chain


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
    def order(self) -> int:
        return self.top - min(self.shifts)

    @property
    def first(self) -> int:
        """The first place that another value is needed for."""
        return self.start + min(self.shifts)


class Writer(NamedTuple):
    """Writes the proof down; `key` is the name of what holds for all periods."""

    rule: Recurrence
    values: dict[int, int]
    begin: int
    period: int
    modulus: int
    key: str

    def value(self, place: int) -> int:
        return self.values[place] % self.modulus if self.modulus else self.values[place]

    def term(self, at: str) -> str:
        """The sequence at a place, modulo the number."""
        return f"{self.rule.function} ({at}) % {self.modulus}" if self.modulus else f"{self.rule.function} ({at})"

    def said(self, at: str, place: int) -> str:
        return f"{self.term(at)} = {self.value(place)}"

    def general(self) -> str:
        """For all periods: the values of one from those of the one before."""
        rule, period, places = self.rule, self.period, range(self.begin, self.begin + self.period)
        known = [f"have {self.key}s{at} : {self.said(str(at), at)} := by omega" for at in self.given()]
        first = [self.step("", at, f"{self.key}s") for at in range(rule.first + rule.order, self.begin + period)]
        claim = " ∧ ".join(self.said(f"{period} * q + {at}", at) for at in places)
        zero = f"exact ⟨{', '.join(f'{self.key}s{at}' for at in places)}⟩"
        names = ", ".join(f"{self.key}e{at}" for at in places)
        steps = [self.step(f"{period} * q + ", at + period, f"{self.key}e") for at in places]
        moved = (f"show {period} * (q + 1) + {at} = {period} * q + {at + period} by omega" for at in places)
        ended = (f"(by rw [{same}]; exact {self.key}e{at + period})" for at, same in zip(places, moved, strict=True))
        succ = "; ".join([f"obtain ⟨{names}⟩ := ih", *steps, f"exact ⟨{', '.join(ended)}⟩"])
        proof = f"intro q; induction q with | zero => ({zero}) | succ q ih => ({succ})"
        return f"have {self.key} : ∀ q : Nat, {claim} := by {chain([self.counted(), *known, *first, proof])}"

    def given(self) -> range:
        return range(self.rule.first, self.rule.first + self.rule.order)

    def counted(self) -> str:
        """The recurrence from one place on, counted from where it first looks."""
        rule, low = self.rule, min(self.rule.shifts)
        at = "m" if low >= 0 else f"m + {-low}"
        instance = f"{rule.name} ({at})" + (" (by omega)" if rule.conditional else "")
        pairs = [(shift, f"{at} {'-' if shift < 0 else '+'} {abs(shift)}") for shift in [*rule.shifts, rule.top]]
        same = " ∧ ".join(f"{rule.function} ({text}) = {rule.function} (m + {shift - low})" for shift, text in pairs)
        proof = f"(intro m hm; have h := {instance}; have hs : {same} := ⟨{', '.join(['rfl'] * len(pairs))}⟩; omega)"
        return f"have {self.key}r : ∀ m : Nat, {rule.first} ≤ m → {self.relation('m + ', 0)} := by {proof}"

    def relation(self, before: str, at: int) -> str:
        """A value by those before it; `at` is the first of these."""
        low, mod = min(self.rule.shifts), f" % {self.modulus}" if self.modulus else ""
        terms = [
            f"({factor}) * ({self.term(f'{before}{at + shift - low}')})"
            for shift, factor in sorted(self.rule.shifts.items())
        ]
        return f"{self.term(f'{before}{at + self.rule.order}')} = ({' + '.join(terms)} + ({self.rule.constant})){mod}"

    def step(self, before: str, at: int, stem: str) -> str:
        """The value at a place from those before it."""
        low = at - self.rule.order
        within = f"(Nat.le_trans (by decide : {self.rule.first} ≤ {low}) (Nat.le_add_left {low} _))"
        reached = within if before else "(by decide)"
        relation = f"(show {self.relation(before, low)} from {self.key}r ({before}{low}) {reached})"
        needed = (f"{stem}{low + shift - min(self.rule.shifts)}" for shift in self.rule.shifts)
        computed = f"(by rw [{', '.join(needed)}]; first | done | rfl)"
        return f"have {stem}{at} : {self.said(f'{before}{at}', at)} := {relation}.trans {computed}"

    def at(self, asked: str, place: int) -> str:
        """The value that the goal asks for."""
        part = ".2" * place + (".1" if place < self.period - 1 else "")
        said = self.said(asked, self.begin + place)
        name = f"have {self.key}a{asked} : {said}"
        if asked.isdigit():
            return f"{name} := ({self.key} {(int(asked) - self.begin) // self.period}){part}"
        whole = f"have hx : {asked} = {self.period} * ({asked} / {self.period}) + {self.begin + place} := (by omega)"
        return f"{name} := by ({whole}; rw [hx]; exact ({self.key} _){part})"
