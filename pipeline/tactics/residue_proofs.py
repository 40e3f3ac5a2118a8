"""Tactic text for the residues of sums and products, once those of their leaves are known."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.numbers import Monomial, Polynomial
from pipeline.tactics.terms import Operation, Term, shown


def worked_out(goal: PrintedGoal, modulus: int, known: dict[str, str]) -> list[str]:
    """Everything that omega needs; `known`: the hypothesis that has the residue of a leaf."""
    names = iter(goal.fresh("hz", 200))
    forms = [(side, numbers.polynomial(side, naturals=natural)) for side, natural in composed(goal)]
    lines = [line for form in merged(forms) for line in product(form, modulus, known, goal, names)]
    sums = [f"have {next(names)} : {shown(side)} = {text(form)} := by grind -verbose" for side, form in forms]
    return [*lines, *sums]


def composed(goal: PrintedGoal) -> Iterator[tuple[Term, bool]]:
    """Terms of degree two and more, as they stand in the relations."""
    for one in arithmetic.stated(goal):
        natural = not arithmetic.integral(one.relation, goal)
        for side in (one.relation.left, one.relation.right):
            inside = side.arguments[0] if isinstance(side, Operation) and side.sign == "%" else side
            if numbers.degree(numbers.polynomial(inside, naturals=natural)) > 1:
                yield inside, natural


def merged(forms: list[tuple[Term, Polynomial]]) -> list[Monomial]:
    found = [monomial for _, form in forms for monomial in form if numbers.degree({monomial: 1}) > 1]
    return list(dict.fromkeys(found))


def product(
    monomial: Monomial, modulus: int, known: dict[str, str], goal: PrintedGoal, names: Iterator[str]
) -> Iterator[str]:
    """One factor after the other."""
    factors = [name for name, times in monomial for _ in range(times)]
    law = "Int.mul_emod" if any(arithmetic.kind_of(name, goal) == "Int" for name in factors) else "Nat.mul_mod"
    so_far, residue = factors[0], known[factors[0]]
    for factor in factors[1:]:
        name = next(names)
        yield f"have {name} := {law} ({so_far}) ({factor}) {modulus}"
        yield f"rw [{', '.join(dict.fromkeys([residue, known[factor]]))}] at {name}"
        so_far, residue = f"{so_far} * {factor}", name
    if so_far != shown_monomial(monomial):
        yield f"have {next(names)} : {shown_monomial(monomial)} = {so_far} := by grind -verbose"


def shown_monomial(monomial: Monomial) -> str:
    return " * ".join(name if times == 1 else f"{name} ^ {times}" for name, times in monomial) or "1"


def text(form: Polynomial) -> str:
    """A sum; what is subtracted stands at the end, so that a natural one would be cut as late as may be."""
    terms = sorted(form.items(), key=lambda item: item[1] < 0)
    parts = [(" - " if factor < 0 else " + ", abs(factor), monomial) for monomial, factor in terms]
    said = [sign + (f"{size} * {shown_monomial(mono)}" if mono else str(size)) for sign, size, mono in parts]
    whole = "".join(said)
    return whole[3:] if whole.startswith(" + ") else "-" + whole[3:] if whole else "0"
