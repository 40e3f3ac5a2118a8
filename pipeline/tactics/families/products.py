"""Multiply inequalities; give omega or grind many facts at once.

Inequalities are multiplied with each other and with positive terms; squares are not negative."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations

from pipeline.tactics.families.witnesses import polynomial_text
from pipeline.tactics.text import arithmetic, numbers, syntax, terms
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.move import LONG, MIDDLE, SHORT, TacticMove, chain
from pipeline.tactics.text.terms import Leaf, Number, Operation, Relation, Term, term_text

CLOSE = "first | omega | grind -verbose"
NONNEGATIVE_CASES = "(exact Int.mul_nonneg hs hs); (exact Int.mul_nonneg_of_nonpos_of_nonpos hs hs)"


def propose_products(goal: PrintedGoal) -> Iterator[TacticMove]:
    if "*" not in goal.propositions and "^" not in goal.propositions:
        return
    naturals, integers = goal.of_type("Nat"), goal.of_type("Int")
    yield from monotone_products(goal, naturals, integers)
    yield from square_moves(goal, integers)
    yield from multiply_pairs(goal, bool(naturals), bool(integers))
    yield from cancel_factors(goal)
    yield from cancel_common_variable(goal)
    yield from compare_powers(goal)


def monotone_products(goal: PrintedGoal, naturals: list[str], integers: list[str]) -> Iterator[TacticMove]:
    """Bounds such as x ≤ x * y where y is positive."""
    name = goal.fresh("hq")[0]
    positive = "by first | omega | (apply Nat.pos_of_ne_zero; intro hz; subst hz; simp_all)"
    for one, other in [*permutations(naturals, 2)][:6]:
        told = f"have {name} : {one} * 1 ≤ {one} * {other} := Nat.mul_le_mul_left {one} ({positive})"
        yield TacticMove(0.9, told, SHORT)
    for one, other in [*permutations(integers, 2)][:6]:
        told = f"have {name} : {one} * 1 ≤ {one} * {other} := Int.mul_le_mul_of_nonneg_left (by omega) (by omega)"
        yield TacticMove(1.2, told, SHORT)


def square_moves(goal: PrintedGoal, integers: list[str]) -> Iterator[TacticMove]:
    """Squares of differences, of sums, of the variables themselves."""
    terms = [*integers[:3], *(f"({a} - {b})" for a, b in combinations(integers[:4], 2))]
    terms += [f"({a} + {b})" for a, b in combinations(integers[:2], 2)]
    terms += [f"({a} - {number})" for a in integers[:1] for number in goal.numerals[:3] if number]
    if terms:
        names = goal.fresh("hq", len(terms))
        lines = [
            f"have {name} : 0 ≤ {term} * {term} := by {square_proof(term)}"
            for name, term in zip(names, terms, strict=True)
        ]
        yield TacticMove(0.8, chain([*lines, CLOSE]), LONG, closing=True)


def square_proof(term: str) -> str:
    signs = f"rcases Int.le_total 0 ({term}) with hs | hs"
    return f"({signs}; {NONNEGATIVE_CASES})"


def multiply_pairs(goal: PrintedGoal, naturals: bool, integers: bool) -> Iterator[TacticMove]:
    orders = [
        one
        for one in arithmetic.fact_relations(goal)
        if one.relation.sign in ("≤", "<", "≥", ">") and one.relation.holds
    ]
    name = goal.fresh("hq")[0]
    for one, other in [*combinations_with_replacement(orders, 2)][:6]:
        for cost, fact in multiply_pair(one, other, naturals=naturals, integers=integers):
            yield TacticMove(cost, chain([f"have {name} := {fact}", CLOSE]), MIDDLE, closing=True)
    for one in orders[:3]:
        for variable in goal.of_type("Nat")[:3]:
            yield TacticMove(1.5, f"have {name} := Nat.mul_le_mul_left {variable} {one.name}", SHORT)
            strictly = f"have {name} := Nat.mul_lt_mul_of_pos_left {one.name} (show 0 < {variable} by omega)"
            if one.relation.sign in "<>":
                yield TacticMove(1.0, strictly, SHORT)


def multiply_pair(
    one: StatedRelation, other: StatedRelation, *, naturals: bool, integers: bool
) -> Iterator[tuple[float, str]]:
    if naturals:
        yield from ((1.7, fact) for fact in product_terms(one.name, other.name, integral=False))
    if integers:
        yield from zip((1.7, 1.8), product_terms(one.name, other.name, integral=True), strict=True)


def cancel_common_variable(goal: PrintedGoal) -> Iterator[TacticMove]:
    """A variable that every term of an equation has as a factor, taken out of all of them."""
    for one in arithmetic.equations(goal):
        integral = arithmetic.is_integral_relation(one.relation, goal)
        sides = [numbers.polynomial(side, naturals=not integral) for side in (one.relation.left, one.relation.right)]
        monomials = [set(dict(monomial)) for side in sides for monomial in side]
        for name in sorted(set.intersection(*monomials)) if all(sides) else ():
            left, right = (
                polynomial_text({without_variable(name, monomial): factor for monomial, factor in side.items()})
                for side in sides
            )
            owner = "Int" if integral else "Nat"
            zero = "by first | omega | (intro hz; subst hz; simp_all; done)" if integral else "by first | omega | grind"
            same = f"show {name} * ({left}) = {name} * ({right}) by grind -verbose"
            fact = f"{owner}.eq_of_mul_eq_mul_left ({zero}) ({same})"
            yield TacticMove(0.4, f"have {goal.fresh('hq')[0]} : {left} = {right} := {fact}", MIDDLE)


def compare_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Equal powers of naturals: of the same exponent, of the same base."""
    name = goal.fresh("hq")[0]
    for one in arithmetic.equations(goal):
        match (one.relation.left, one.relation.right):
            case (Operation("^", (a, m)), Operation("^", (b, n))) if (a == b) != (m == n):
                law = "Nat.pow_left_inj" if m == n else "Nat.pow_right_inj"
                yield TacticMove(0.4, f"have {name} := ({law} (by omega)).mp {one.name}", SHORT)


def without_variable(name: str, monomial: numbers.Monomial) -> numbers.Monomial:
    """The monomial divided by a variable in it."""
    return tuple((each, times - (each == name)) for each, times in monomial if each != name or times > 1)


def cancel_factors(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Divide an equation of products by a factor that is not zero."""
    name = goal.fresh("hq")[0]
    positive = "(by first | omega | (apply Nat.pos_of_ne_zero; simp_all; done))"
    for one in arithmetic.equations(goal):
        if "*" in goal.propositions and not arithmetic.is_integral_relation(one.relation, goal):
            left = f"Nat.eq_of_mul_eq_mul_left {positive} {one.name}"
            padded = f"Nat.eq_of_mul_eq_mul_left {positive} (Eq.trans {one.name} (Nat.mul_one _).symm)"
            right = f"Nat.eq_of_mul_eq_mul_right {positive} {one.name}"
            for fact in (left, right, padded):
                yield TacticMove(0.8, f"have {name} := {fact}", SHORT)
        elif arithmetic.is_integral_relation(one.relation, goal):
            yield TacticMove(
                1.0, f"have {name} := Int.eq_of_mul_eq_mul_left (by first | omega | assumption) {one.name}", SHORT
            )


MOST_FACTS = 12


def propose_gathering(goal: PrintedGoal) -> Iterator[TacticMove]:
    facts = [*instance_facts(goal), *power_multiples(goal), *power_facts(goal)]
    products = [*multiplied_facts(goal)]
    if facts:
        yield TacticMove(0.5, gather_facts(facts, goal), LONG, closing=True)
        spread = "simp only [Nat.pow_succ, Nat.mul_add, Nat.add_mul, ← Nat.add_assoc] at *"
        yield TacticMove(0.9, gather_facts([*facts], goal, spread), LONG, closing=True)
    if products:
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
            match terms.read_term(argument):
                case Operation("+", (before, Number(1))):
                    yield term_text(before, tight=True)
                case Operation("+", (before, Number(number))):
                    yield f"({term_text(before)} + {number - 1})"
            yield argument


def power_facts(goal: PrintedGoal) -> Iterator[str]:
    """Facts about powers: they are positive, larger than their exponents, and what the next one is."""
    for term in [one for one in arithmetic.goal_subterms(goal) if isinstance(one, Operation) and one.sign == "^"][:4]:
        base, exponent = term.arguments
        owner = "Int" if arithmetic.is_integral(base, goal) else "Nat"
        b, e = term_text(base, tight=True), term_text(exponent, tight=True)
        if terms.leaves(exponent):
            yield f"(show 0 < ({b} : {owner}) ^ {e} from {owner}.pow_pos (by omega))"
            yield from larger_power(base, b, e, owner)
            match exponent:
                case Operation("+", (before, Number(number))):
                    less = term_text(before, tight=True) if number == 1 else f"({term_text(before)} + {number - 1})"
                    yield f"(show ({b} : {owner}) ^ {e} = {b} ^ {less} * {b} from {owner}.pow_succ ..)"


def power_multiples(goal: PrintedGoal) -> Iterator[str]:
    """Powers of the same base whose exponents differ by a number: one is so many times the other."""
    found = [one for one in arithmetic.goal_subterms(goal) if isinstance(one, Operation) and one.sign == "^"][:6]
    for one, other in permutations(found, 2):
        (base, exponent), (same, less) = one.arguments, other.arguments
        apart = numbers.difference(Relation("=", exponent, less), naturals=True)
        if base == same and terms.leaves(exponent) and set(apart) == {()} and apart[()] > 0:
            owner = "Int" if arithmetic.is_integral(base, goal) else "Nat"
            b, at = term_text(base, tight=True), term_text(exponent)
            why = f"by rw [show {at} = {term_text(less)} + {apart[()]} by omega, {owner}.pow_add]"
            yield f"(show {term_text(one)} = {term_text(other)} * {b} ^ {apart[()]} from {why})"


def larger_power(base: Term, b: str, e: str, owner: str) -> Iterator[str]:
    if owner == "Nat" and isinstance(base, Number) and base.value > 1:
        yield f"(show {e} < ({b} : Nat) ^ {e} from Nat.lt_pow_self (by omega))"


def multiplied_facts(goal: PrintedGoal) -> Iterator[str]:
    """Inequalities times each other, and squares of differences."""
    if not arithmetic.is_nonlinear(goal):
        return
    orders = [one for one in arithmetic.fact_relations(goal) if one.relation.sign in "≤<≥>" and one.relation.holds]
    integral = bool(goal.of_type("Int"))
    for one, other in combinations(orders[:4], 2):
        yield from product_terms(one.name, other.name, integral=integral)
    for one in orders[:3]:
        yield from product_terms(one.name, one.name, integral=integral)
    integers = goal.of_type("Int")
    differences = [f"({a} - {b})" for a, b in combinations(integers[:3], 2)]
    for term in [*crossed_products(integers), *differences, *integers[:3]]:
        yield f"(show 0 ≤ {term} * {term} by (rcases Int.le_total 0 {term} with hs | hs; {NONNEGATIVE_CASES}))"


def crossed_products(integers: list[str]) -> Iterator[str]:
    """Differences of products of two and two, of four variables."""
    if len(integers) == 4:
        a, b, c, d = integers
        yield from (f"({a} * {d} - {b} * {c})", f"({a} * {c} - {b} * {d})", f"({a} * {b} - {c} * {d})")


def product_terms(one: str, other: str, *, integral: bool) -> Iterator[str]:
    if integral:
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
