"""Multiply inequalities with each other and with positive terms; give omega or grind many facts at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations

from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, TacticMove, chain
from pipeline.tactics.text.terms import Leaf, Number, Operation, Relation, Term, term_text

CLOSE = "first | omega | grind -verbose"
NONNEGATIVE_CASES = "(exact Int.mul_nonneg hs hs); (exact Int.mul_nonneg_of_nonpos_of_nonpos hs hs)"


def propose_products(goal: PrintedGoal) -> Iterator[TacticMove]:
    if "*" in goal.propositions or "^" in goal.propositions:
        yield from monotone_products(goal)
        yield from square_moves(goal)
        yield from multiply_pairs(goal)
        yield from cancel_factors(goal)
        yield from cancel_common_variable(goal)
        yield from compare_powers(goal)


def monotone_products(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Bounds such as x ≤ x * y where y is positive."""
    positive = "by first | omega | (apply Nat.pos_of_ne_zero; intro hz; subst hz; simp_all)"
    for cost, kind, proof in (
        (0.9, "Nat", f"Nat.mul_le_mul_left {{0}} ({positive})"),
        (1.2, "Int", "Int.mul_le_mul_of_nonneg_left (by omega) (by omega)"),
    ):
        for one, other in [*permutations(goal.of_type(kind), 2)][:6]:
            larger = f"{one} * 1 ≤ {one} * {other} := {proof.format(one)}"
            yield TacticMove(cost, f"have {goal.fresh('hq')[0]} : {larger}")


def square_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Squares of differences, of sums, of the variables themselves."""
    integers = goal.of_type("Int")
    squared = [*integers[:3], *(f"({a} - {b})" for a, b in combinations(integers[:4], 2))]
    squared += [f"({a} + {b})" for a, b in combinations(integers[:2], 2)]
    squared += [f"({a} - {number})" for a in integers[:1] for number in goal.numerals[:3] if number]
    lines = []
    for name, term in zip(goal.free_names("hq"), squared, strict=False):
        signs = f"rcases Int.le_total 0 ({term}) with hs | hs"
        lines.append(f"have {name} : 0 ≤ {term} * {term} := by ({signs}; {NONNEGATIVE_CASES})")
    if lines:
        yield TacticMove(0.8, chain([*lines, CLOSE]), LONG, closing=True)


def multiply_pairs(goal: PrintedGoal) -> Iterator[TacticMove]:
    orders, naturals = arithmetic.inequalities(goal), goal.of_type("Nat")
    name = goal.fresh("hq")[0]
    for one, other in [*combinations_with_replacement(orders, 2)][:6]:
        facts = [(1.7, fact) for fact in product_terms(one.name, other.name, "Nat") if naturals]
        if goal.of_type("Int"):
            facts += zip((1.7, 1.8), product_terms(one.name, other.name, "Int"), strict=True)
        for cost, fact in facts:
            yield TacticMove(cost, chain([f"have {name} := {fact}", CLOSE]), MIDDLE, closing=True)
    for one in orders[:3]:
        for variable in naturals[:3]:
            yield TacticMove(1.5, f"have {name} := Nat.mul_le_mul_left {variable} {one.name}")
            strictly = f"have {name} := Nat.mul_lt_mul_of_pos_left {one.name} (show 0 < {variable} by omega)"
            if one.relation.sign in "<>":
                yield TacticMove(1.0, strictly)


def cancel_common_variable(goal: PrintedGoal) -> Iterator[TacticMove]:
    """A variable that every term of an equation has as a factor, taken out of all of them."""
    zeros = {"Int": "(intro hz; subst hz; simp_all; done)", "Nat": "grind"}
    for one in arithmetic.equations(goal):
        sides = [terms.polynomial(side, one.kind) for side in (one.relation.left, one.relation.right)]
        monomials = [set(dict(monomial)) for side in sides for monomial in side]
        for name in sorted(set.intersection(*monomials)) if all(sides) else ():
            quotients = (terms.multiply_polynomials(side, {((name, -1),): 1}) for side in sides)
            left, right = map(terms.polynomial_text, quotients)
            same = f"show {name} * ({left}) = {name} * ({right}) by grind -verbose"
            fact = f"{one.kind}.eq_of_mul_eq_mul_left (by first | omega | {zeros[one.kind]}) ({same})"
            yield TacticMove(0.4, f"have {goal.fresh('hq')[0]} : {left} = {right} := {fact}", MIDDLE)


def compare_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Equal powers of naturals: of the same exponent, of the same base."""
    name = goal.fresh("hq")[0]
    for one in arithmetic.equations(goal):
        match (one.relation.left, one.relation.right):
            case (Operation("^", (a, m)), Operation("^", (b, n))) if (a == b) != (m == n):
                law = "Nat.pow_left_inj" if m == n else "Nat.pow_right_inj"
                yield TacticMove(0.4, f"have {name} := ({law} (by omega)).mp {one.name}")


def cancel_factors(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Divide an equation of products by a factor that is not zero."""
    positive = "(by first | omega | (apply Nat.pos_of_ne_zero; simp_all; done))"
    left, right = (f"Nat.eq_of_mul_eq_mul_{side} {positive}" for side in ("left", "right"))
    name = goal.fresh("hq")[0]
    for one in arithmetic.equations(goal):
        if one.kind == "Int":
            divided = f"Int.eq_of_mul_eq_mul_left (by first | omega | assumption) {one.name}"
            yield TacticMove(1.0, f"have {name} := {divided}")
        elif "*" in goal.propositions:
            padded = f"(Eq.trans {one.name} (Nat.mul_one _).symm)"
            for fact in (f"{left} {one.name}", f"{right} {one.name}", f"{left} {padded}"):
                yield TacticMove(0.8, f"have {name} := {fact}")


MOST_FACTS = 12


def propose_gathering(goal: PrintedGoal) -> Iterator[TacticMove]:
    facts = [*instance_facts(goal), *power_multiples(goal), *power_facts(goal)]
    if facts:
        yield TacticMove(0.5, gather_facts(facts, goal), LONG, closing=True)
        spread = "simp only [Nat.pow_succ, Nat.mul_add, Nat.add_mul, ← Nat.add_assoc] at *"
        yield TacticMove(0.9, gather_facts(facts, goal, spread), LONG, closing=True)
    if products := [*multiplied_facts(goal)]:
        yield TacticMove(1.0, gather_facts([*facts, *products], goal), 2 * LONG, closing=True)
    yield from split_order(goal)


def gather_facts(facts: list[str], goal: PrintedGoal, last: str = "skip") -> str:
    names = goal.fresh("hall", len(facts))
    lines = [f"try have {name} := {fact}" for name, fact in zip(names, facts, strict=True)]
    return chain([*lines[:MOST_FACTS], f"try {last}", CLOSE])


def instance_facts(goal: PrintedGoal) -> Iterator[str]:
    """Facts that hold for all, at the places where the goal names the function: there and one before."""
    for fact in goal.facts:
        if syntax.connective(fact.type) == "∀" and len(syntax.bound_variables(fact.type)[0]) == 1:
            for function in dict.fromkeys(re.findall(r"(?<![\w.])([^\W\d]\w*) \(?\w", fact.type)):
                if "→" in goal.types.get(function, ""):
                    yield from (f"{fact.name} {at}" for at in list(dict.fromkeys(arguments_of(function, goal)))[:4])


def arguments_of(function: str, goal: PrintedGoal) -> Iterator[str]:
    for leaf in [one.name for one in arithmetic.goal_subterms(goal) if isinstance(one, Leaf)]:
        head, _, argument = leaf.partition(" ")
        if head == function and argument:
            yield from predecessor(terms.read_term(argument))
            yield argument


def predecessor(term: Term | None) -> Iterator[str]:
    """`n + 2` as `(n + 1)`, and `n + 1` as `n`."""
    match term:
        case Operation("+", (before, Number(number))):
            yield term_text(before, tight=True) if number == 1 else f"({term_text(before)} + {number - 1})"


def power_facts(goal: PrintedGoal) -> Iterator[str]:
    """Facts about powers: they are positive, larger than their exponents, and what the next one is."""
    powers = [one.arguments for one in arithmetic.operations(goal, "^")[:4]]
    for base, exponent in (one for one in powers if terms.leaves(one[1])):
        kind = arithmetic.term_kind(base, goal)
        b, e = term_text(base, tight=True), term_text(exponent, tight=True)
        yield f"(show 0 < ({b} : {kind}) ^ {e} from {kind}.pow_pos (by omega))"
        if isinstance(base, Number) and base.value > 1:
            yield f"(show {e} < ({b} : Nat) ^ {e} from Nat.lt_pow_self (by omega))"
        for less in predecessor(exponent):
            yield f"(show ({b} : {kind}) ^ {e} = {b} ^ {less} * {b} from {kind}.pow_succ ..)"


def power_multiples(goal: PrintedGoal) -> Iterator[str]:
    """Powers of the same base whose exponents differ by a number: one is so many times the other."""
    for one, other in permutations(arithmetic.operations(goal, "^")[:6], 2):
        (base, exponent), (same, less) = one.arguments, other.arguments
        apart = terms.difference(Relation("=", exponent, less), "Nat")
        if base == same and terms.leaves(exponent) and set(apart) == {()} and apart[()] > 0:
            kind = arithmetic.term_kind(base, goal)
            b, at = term_text(base, tight=True), term_text(exponent)
            why = f"by rw [show {at} = {term_text(less)} + {apart[()]} by omega, {kind}.pow_add]"
            yield f"(show {term_text(one)} = {term_text(other)} * {b} ^ {apart[()]} from {why})"


def multiplied_facts(goal: PrintedGoal) -> Iterator[str]:
    """Inequalities times each other; squares of differences, and of those of products of two and two."""
    if not arithmetic.is_nonlinear(goal):
        return
    orders, integers = arithmetic.inequalities(goal), goal.of_type("Int")
    for one, other in [*combinations(orders[:4], 2), *((one, one) for one in orders[:3])]:
        yield from product_terms(one.name, other.name, "Int" if integers else "Nat")
    squared = [*(f"({a} - {b})" for a, b in combinations(integers[:3], 2)), *integers[:3]]
    if len(integers) == 4:
        a, b, c, d = integers
        squared = [f"({a} * {d} - {b} * {c})", f"({a} * {c} - {b} * {d})", f"({a} * {b} - {c} * {d})", *squared]
    for term in squared:
        yield f"(show 0 ≤ {term} * {term} by (rcases Int.le_total 0 {term} with hs | hs; {NONNEGATIVE_CASES}))"


def product_terms(one: str, other: str, kind: str) -> Iterator[str]:
    if kind == "Int":
        yield f"Int.mul_nonneg (Int.sub_nonneg_of_le {one}) (Int.sub_nonneg_of_le {other})"
        yield f"Int.mul_pos (Int.sub_pos_of_lt {one}) (Int.sub_pos_of_lt {other})"
    else:
        yield f"Nat.mul_le_mul {one} {other}"


def split_order(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Split by which of two naturals is the larger: it is the smaller and something."""
    if not arithmetic.is_nonlinear(goal) or goal.connective not in ("≤", "<", "≥", ">", "="):
        return
    for place, (a, b) in enumerate([*combinations(goal.of_type("Nat"), 2)][:3]):
        h, d = goal.fresh("hle")[0], goal.fresh("d")[0]
        either = f"rcases Nat.le_total {a} {b} with {h} | {h}"
        substituted = f"(obtain ⟨{d}, rfl⟩ := Nat.exists_eq_add_of_le {h}; clear {h})"
        yield TacticMove(1.1 + 0.1 * place, f"({either} <;> {substituted} <;> ({CLOSE}))", LONG, closing=True)
        yield TacticMove(1.6 + 0.1 * place, f"({either} <;> {substituted})", MIDDLE)
