"""Arithmetic modulo a number: by cases on the residues, with a modulus that is seen to decide the goal.

The tactic text proves what holds for all residues: the kernel computes it for each of them.  A term modulo m is the
same term of residues modulo m; that step is a proof written out along the term."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from pipeline.tactics.text import arithmetic, terms
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, TacticMove, chain, decide_below, remainder_split
from pipeline.tactics.text.terms import Leaf, Number, Operation, Polynomial, Relation, Term, subterms, term_text

LAW_WORDS = {"+": "add", "-": "sub", "*": "mul", "neg": "neg", "^": "pow"}


class ResidueSide(NamedTuple):
    """A term that is looked at modulo the number; `kind` is Nat or Int."""

    term: Term
    kind: str


class ResidueNames(NamedTuple):
    """Names of the residue of each leaf and of the fact about it; `law` begins the names of laws, `side` of terms."""

    leaves: dict[str, tuple[str, str]]
    law: str
    side: str
    key: str


def prove_by_computation(
    sides: Sequence[ResidueSide], claim: str, modulus: int, goal: PrintedGoal, names: ResidueNames
) -> str:
    """`claim` speaks of the sides with residues in place of leaves, as `residual_text` writes them."""
    lines = []
    for leaf, (name, fact) in names.leaves.items():  # a natural below the modulus, and that it is `leaf % m`
        kind = "Int" if arithmetic.number_type(leaf, goal) == "Int" else "Nat"
        residue = f"({leaf} : {kind}) % {modulus}"
        value, cast = (f"({residue}).toNat", f"({name} : Int)") if kind == "Int" else (residue, name)
        claimed = f"∃ {name} : Nat, {residue} = {cast} % {modulus} ∧ {name} < {modulus}"
        lines.append(f"obtain ⟨{name}, {fact}, {fact}b⟩ : {claimed} := ⟨{value}, by omega, by omega⟩")
    for kind in dict.fromkeys(side.kind for side in sides):
        parts = (one for side in sides if side.kind == kind for one in subterms(side.term))
        signs = {one.sign for one in parts if isinstance(one, Operation)}
        lines += congruence_laws(kind, modulus, names, signs - ({"-"} if kind == "Nat" else set()))
    for place, side in enumerate(sides):
        same = f"{term_text(side.term, tight=True)} % {modulus} = {residual_text(side, names)} % {modulus}"
        lines.append(f"have {names.side}{place} : {same} := {congruence_proof(side.term, side.kind, names)}")
    limits = dict.fromkeys([name for name, _ in names.leaves.values()], modulus)
    checked, proof = decide_below(claim, limits, names.key, [f"{fact}b" for _, fact in names.leaves.values()])
    decided = chain([checked, f"have {names.key} := {proof}"])
    return chain([*lines, decided, "omega"])


def congruence_laws(kind: str, modulus: int, names: ResidueNames, signs: set[str]) -> list[str]:
    """Laws by which equal residues stay equal under the operations of these signs."""
    of, mod, name = f"{names.law}{kind}", f"% {modulus}", "mod" if kind == "Nat" else "emod"
    given = f"∀ a b c d : {kind}, a {mod} = b {mod} → c {mod} = d {mod} →"
    found = []
    for sign in [one for one in "+-*" if one in signs or (one == "*" and "^" in signs)]:
        law = f"{kind}.{LAW_WORDS[sign]}_{name}"
        why = f"fun a b c d h g => by rw [{law}, h, g, ← {law}]"
        found.append(f"have {of}{LAW_WORDS[sign]} : {given} (a {sign} c) {mod} = (b {sign} d) {mod} := {why}")
    if "^" in signs:
        power = f"∀ (a b : {kind}) (n : Nat), a {mod} = b {mod} → a ^ n {mod} = b ^ n {mod}"
        step = f"(rw [{kind}.pow_succ, {kind}.pow_succ]; exact {of}mul _ _ _ _ ih h)"
        first = f"(rw [{kind}.pow_zero, {kind}.pow_zero])"
        induction = f"induction n with | zero => {first} | succ n ih => {step}"
        found.append(f"have {of}pow : {power} := fun a b n h => by {induction}")
    if "neg" in signs:
        found.append(f"have {of}neg : ∀ a b : Int, a {mod} = b {mod} → (-a) {mod} = (-b) {mod} := by omega")
    return found


def looked_into(term: Term, kind: str) -> tuple[Term, ...] | None:
    """The parts whose residues decide the term's; None for a leaf: a variable, an application, naturals subtracted."""
    match term:
        case Number():
            return ()
        case Operation("^", (base, Number())):
            return (base,)
        case Operation(sign, arguments) if sign in ("+", "*", "neg") or (sign == "-" and kind == "Int"):
            return arguments
    return None


def congruence_proof(term: Term, kind: str, names: ResidueNames) -> str:
    parts = looked_into(term, kind)
    if parts is None:
        return names.leaves[term_text(term)][1]
    if not isinstance(term, Operation):
        return "rfl"
    holes = "_ " * (3 if term.sign == "^" else 2 * len(parts))
    proofs = " ".join(congruence_proof(one, kind, names) for one in parts)
    return f"({names.law}{kind}{LAW_WORDS[term.sign]} {holes}{proofs})"


def residual_text(side: ResidueSide, names: ResidueNames) -> str:
    """The term with residues in place of leaves."""
    return f"({term_text(with_residues(side.term, side.kind, names))} : {side.kind})"


def with_residues(term: Term, kind: str, names: ResidueNames) -> Term:
    parts = looked_into(term, kind)
    if parts is None:
        name = names.leaves[term_text(term)][0]
        return Leaf(name if kind == "Nat" else f"({name} : Int)")
    if not isinstance(term, Operation):
        return term
    return Operation(term.sign, (*(with_residues(one, kind, names) for one in parts), *term.arguments[len(parts) :]))


MODULI_TRIED = (*range(2, 17), 19, 20, 21, 24, 25, 27, 28, 32)
MOST_POINTS = 4000
MODULO_LAWS = (
    "Nat.pow_succ, Nat.pow_mod, Nat.mul_mod, Nat.add_mod, Int.pow_succ, Int.mul_emod, Int.add_emod, Int.sub_emod"
)


class Congruence(NamedTuple):
    """`form` modulo `modulus` is, or is not, 0."""

    form: Polynomial
    modulus: int
    holds: bool


def propose_residues(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, modulus in enumerate(deciding_moduli(goal)):
        yield compute_residues(goal, modulus, 0.05 + 0.1 * place)
    moduli, name = arithmetic.moduli(goal), goal.fresh("hr")[0]
    tail = f"(first | omega | (simp [{name}, {MODULO_LAWS}]; done) | (simp_all [{MODULO_LAWS}]; done) | grind -verbose)"
    for modulus in [one for one in moduli if one <= 30][:3]:
        for place, variable in enumerate(goal.of_type("Nat", "Int")[:3]):
            split = remainder_split(name, variable, modulus)
            yield TacticMove(1.0 + 0.02 * modulus + 0.3 * place, f"{split} <;> {tail}", LONG, closing=True)
            if modulus <= 5:
                yield TacticMove(2.0 + 0.3 * place, split)
    if moduli:
        yield TacticMove(0.8, f"(simp [*, {MODULO_LAWS}]; done)", MIDDLE, closing=True)
        yield TacticMove(0.9, "(simp [Nat.pow_succ, Int.pow_succ] at *; omega)", MIDDLE, closing=True)
    if goal.connective == "∣":
        yield TacticMove(1.2, "apply Nat.dvd_of_mod_eq_zero")
        yield TacticMove(1.2, "apply Int.dvd_of_emod_eq_zero")


def deciding_moduli(goal: PrintedGoal) -> list[int]:
    """Moduli for which all residues that the facts allow make the target true."""
    given = [one for one in arithmetic.moduli(goal) if one <= 60]
    tried = dict.fromkeys([*given, *(MODULI_TRIED if arithmetic.is_nonlinear(goal) else ())])
    found: list[int] = []
    for modulus in tried:
        if len(found) < 2 and all(modulus % one for one in found) and moduli_decide(goal, modulus):
            found.append(modulus)
    return found


def moduli_decide(goal: PrintedGoal, modulus: int) -> bool:
    facts = [one for fact in arithmetic.fact_relations(goal) if (one := congruence_of(fact.relation, modulus, goal))]
    parts = arithmetic.target_alternatives(goal)
    target = [one and congruence_of(without_subtraction(one), modulus, goal, exact=True) for one in parts]
    aims = [one for one in target if one]
    if None in target and goal.target != "False":
        return False
    leaves = sorted({name for one in [*facts, *aims] for name in terms.leaf_names(one.form)})
    if not leaves or modulus ** len(leaves) > MOST_POINTS:
        return False
    points = (dict(zip(leaves, choice, strict=True)) for choice in product(range(modulus), repeat=len(leaves)))
    left = (point for point in points if all(holds_at_point(one, point) for one in facts))
    return all(any(holds_at_point(one, point) for one in aims) for point in left)


def without_subtraction(relation: Relation) -> Relation:
    """`m ∣ a - b`, for which it is enough that a and b are the same modulo m, of naturals too."""
    match relation:
        case Relation("∣", Number() as number, Operation("-", (left, right)), True) | Relation(
            "=", Operation("%", (Operation("-", (left, right)), Number() as number)), Number(0), True
        ):
            return Relation("=", Operation("%", (left, number)), Operation("%", (right, number)))
    return relation


def congruence_of(relation: Relation, modulus: int, goal: PrintedGoal, *, exact: bool = False) -> Congruence | None:
    """Congruence that follows from a relation modulo the number; `exact`: only one that is the same as it."""
    kind = arithmetic.relation_kind(relation, goal)
    match relation:
        case Relation("∣", Number(number), right, holds) if number > 1 and modulus % number == 0:
            return Congruence(terms.polynomial(right, kind), number, holds)
        case Relation("=" | "≠" as sign, Operation("%", (inside, Number(number))), right) if (
            number > 1 and modulus % number == 0 and (reduced := residue_form(right, number)) is not None
        ):
            form = terms.add_polynomials(terms.polynomial(inside, kind), reduced, -1)
            return Congruence(form, number, relation.holds == (sign == "="))
        case Relation("=", _, _, True) if not exact:
            return Congruence(terms.difference(relation, kind), modulus, holds=True)
    return None


def residue_form(term: Term, number: int) -> Polynomial | None:
    """The other side of `x % 7 = …`: a number, or something modulo the same."""
    match term:
        case Number(value) if 0 <= value < number:
            return {(): value} if value else {}
        case Operation("%", (inside, Number(other))) if other == number:
            return terms.polynomial(inside)
    return None


def holds_at_point(one: Congruence, point: dict[str, int]) -> bool:
    total = 0
    for monomial, factor in one.form.items():
        worth = factor
        for name, times in monomial:
            worth = worth * pow(point[name], times, one.modulus) % one.modulus
        total += worth
    return (total % one.modulus == 0) == one.holds


def compute_residues(goal: PrintedGoal, modulus: int, cost: float) -> TacticMove:
    """Compute what the relations say modulo the number, for all residues of their leaves."""
    facts = [fact.relation for fact in arithmetic.fact_relations(goal) if congruence_of(fact.relation, modulus, goal)]
    targets = [without_subtraction(one) for one in arithmetic.target_alternatives(goal) if one]
    sides = dict.fromkeys(side for one in [*facts, *targets] for side in sides_of(one, goal)[one.sign == "∣" :])
    computed = [side for side in sides if not isinstance(side.term, Number)]
    leaves = sorted({name for side in computed for name in opaque_leaves(side.term, side.kind)})
    found = zip(leaves, zip(goal.free_names("k"), goal.free_names("hk"), strict=False), strict=False)
    names = ResidueNames(dict(found), *(goal.fresh(stem)[0] for stem in ("law", "hside", "key")))
    given = " ∧ ".join(f"({relation_text(one, modulus, goal, names)})" for one in facts)
    aim = " ∨ ".join(relation_text(one, modulus, goal, names) for one in targets)
    claim = f"{given} → ({aim})" if given and aim else aim or f"¬({given})"
    tactic = prove_by_computation(computed, claim, modulus, goal, names)
    return TacticMove(cost, tactic, LONG + 0.001 * modulus ** len(leaves), closing=True)


def sides_of(relation: Relation, goal: PrintedGoal) -> list[ResidueSide]:
    """Left and right; of `x % 7` that is x."""
    kind = arithmetic.relation_kind(relation, goal)
    sides = (relation.left, relation.right)
    inside = (one.arguments[0] if isinstance(one, Operation) and one.sign == "%" else one for one in sides)
    return [ResidueSide(one, kind) for one in inside]


def opaque_leaves(term: Term, kind: str) -> Iterator[str]:
    parts = looked_into(term, kind)
    if parts is None:
        yield term_text(term)
    for one in parts or ():
        yield from opaque_leaves(one, kind)


def relation_text(relation: Relation, modulus: int, goal: PrintedGoal, names: ResidueNames) -> str:
    """Text of the relation between residues."""
    left, right = (residual_text(side, names) for side in sides_of(relation, goal))
    match relation:
        case Relation("∣", Number(number), _, holds):
            return f"{right} % {modulus} % {number} {'=' if holds else '≠'} 0"
        case Relation(sign, Operation("%", (_, Number(number))), _, holds):
            return f"{left} % {modulus} % {number} {'=' if holds == (sign == '=') else '≠'} {right} % {number}"
    return f"{left} % {modulus} = {right} % {modulus}"
