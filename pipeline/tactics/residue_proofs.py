"""Tactic text that proves what holds for all residues: the kernel computes it for each of them.

A term modulo m is the same term of residues modulo m; that step is a proof written out along the term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.tactics.scripts import chain
from pipeline.tactics.terms import Leaf, Number, Operation, Term, shown, subterms

LAWS = {"+": "add", "-": "sub", "*": "mul"}


class Side(NamedTuple):
    """A term that is looked at modulo the number; `kind` is Nat or Int."""

    term: Term
    kind: str


class Names(NamedTuple):
    """For each leaf its residue and what is known of it; `law` begins the names of the laws, `side` of the terms."""

    leaves: dict[str, tuple[str, str]]
    law: str
    side: str
    key: str


def by_computation(sides: Sequence[Side], claim: str, modulus: int, kinds: dict[str, str], names: Names) -> str:
    """`claim` speaks of the sides with residues in place of leaves, as `residual` writes them."""
    lines = [line for leaf in names.leaves for line in residue(leaf, kinds[leaf], modulus, names)]
    for kind in dict.fromkeys(side.kind for side in sides):
        used = set().union(*(signs(side.term) for side in sides if side.kind == kind))
        lines += laws(kind, modulus, names, used - ({"-"} if kind == "Nat" else set()))
    for place, side in enumerate(sides):
        said = f"{shown(side.term, tight=True)} % {modulus} = {residual(side, names)} % {modulus}"
        lines.append(f"have {names.side}{place} : {said} := {proof(side.term, side.kind, names)}")
    lines += [decided(claim, modulus, names), "omega"]
    return chain(lines)


def residue(leaf: str, kind: str, modulus: int, names: Names) -> list[str]:
    """A natural below the modulus; the fact about it is `leaf % m = r`."""
    name, fact = names.leaves[leaf]
    found = f"({leaf} : {kind}) % {modulus}"
    value = found if kind == "Nat" else f"({found}).toNat"
    cast = name if kind == "Nat" else f"({name} : Int)"
    return [
        f"obtain ⟨{name}, {fact}, {fact}b⟩ : ∃ {name} : Nat, {found} = {cast} % {modulus} ∧ {name} < {modulus} "
        f":= ⟨{value}, by omega, by omega⟩"
    ]


def laws(kind: str, modulus: int, names: Names, signs: set[str]) -> list[str]:
    """Equal residues stay equal under the operations of these signs."""
    of, mod, name = f"{names.law}{kind}", f"% {modulus}", "mod" if kind == "Nat" else "emod"
    given = f"∀ a b c d : {kind}, a {mod} = b {mod} → c {mod} = d {mod} →"
    found = []
    for sign, word in LAWS.items():
        if sign in signs or (sign == "*" and "^" in signs):
            law = f"{kind}.{word}_{name}"
            why = f"fun a b c d h g => by rw [{law}, h, g, ← {law}]"
            found.append(f"have {of}{word} : {given} (a {sign} c) {mod} = (b {sign} d) {mod} := {why}")
    if "^" in signs:
        power = f"∀ (a b : {kind}) (n : Nat), a {mod} = b {mod} → a ^ n {mod} = b ^ n {mod}"
        step = f"(rw [{kind}.pow_succ, {kind}.pow_succ]; exact {of}mul _ _ _ _ ih h)"
        first = f"(rw [{kind}.pow_zero, {kind}.pow_zero])"
        induction = f"induction n with | zero => {first} | succ n ih => {step}"
        found.append(f"have {of}pow : {power} := fun a b n h => by {induction}")
    if "neg" in signs:
        found.append(f"have {of}neg : ∀ a b : Int, a {mod} = b {mod} → (-a) {mod} = (-b) {mod} := by omega")
    return found


def signs(term: Term) -> set[str]:
    return {one.sign for one in subterms(term) if isinstance(one, Operation)}


def proof(term: Term, kind: str, names: Names) -> str:
    of = f"{names.law}{kind}"
    match term:
        case Operation(sign, (left, right)) if sign in LAWS and (sign != "-" or kind == "Int"):
            return f"({of}{LAWS[sign]} _ _ _ _ {proof(left, kind, names)} {proof(right, kind, names)})"
        case Operation("neg", (inside,)):
            return f"({of}neg _ _ {proof(inside, kind, names)})"
        case Operation("^", (base, Number())):
            return f"({of}pow _ _ _ {proof(base, kind, names)})"
        case Number():
            return "rfl"
    return names.leaves[shown(term)][1]


def residual(side: Side, names: Names) -> str:
    """The term with residues in place of leaves."""
    return f"({shown(replaced(side.term, side.kind, names))} : {side.kind})"


def replaced(term: Term, kind: str, names: Names) -> Term:
    match term:
        case Number():
            return term
        case Operation("^", (base, Number() as exponent)):
            return Operation("^", (replaced(base, kind, names), exponent))
        case Operation(sign, arguments) if sign in "+*neg" or (sign == "-" and kind == "Int"):
            return Operation(sign, tuple(replaced(one, kind, names) for one in arguments))
    name = names.leaves[shown(term)][0]
    return Leaf(name if kind == "Nat" else f"({name} : Int)")


def decided(claim: str, modulus: int, names: Names) -> str:
    """The claim at our residues, since the kernel finds it true at all of them."""
    residues = [name for name, _ in names.leaves.values()]
    inner = f"decide ({claim})"
    for name in reversed(residues):
        inner = f"(List.range {modulus}).all (fun {name} => {inner})"
    key = names.key
    found = key
    for name, fact in names.leaves.values():
        found = f"List.all_eq_true.mp ({found}) {name} (List.mem_range.mpr {fact}b)"
    return chain([f"have {key} : ({inner}) = true := by decide +kernel", f"have {key} := of_decide_eq_true ({found})"])
