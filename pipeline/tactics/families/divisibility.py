"""Divisors: factors of a number, greatest common divisors, and polynomials that divide each other.

Products that are a number: each factor is one of its divisors; sums that become a product when a number is added.  What
divides two numbers divides their combinations.  Where polynomials divide each other as polynomials do, the quotient is
worked out and given."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from pipeline.tactics.families.witnesses import monomial_text, polynomial_text
from pipeline.tactics.text import arithmetic, numbers, syntax, terms
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.move import LONG, MIDDLE, SHORT, TacticMove, case_split, chain, disjunction, divisors
from pipeline.tactics.text.numbers import Monomial, Polynomial
from pipeline.tactics.text.terms import Number, Operation, Relation, Term, leaves, read_term, subterms, term_text

LARGEST_PRODUCT = 4000
MOST_DIVISORS = 36


def propose_factors(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, one in enumerate(arithmetic.equations(goal)):
        integral = arithmetic.is_integral_relation(one.relation, goal)
        for fact in (one, swap_sides(one), *complete_product(one, integral=integral)):
            for cost, tactic in product_moves(fact, goal, integral=integral):
                yield TacticMove(cost + 0.05 * place, tactic, LONG)
    yield from division_facts(goal)
    yield from divide_all(goal)


def swap_sides(one: StatedRelation) -> StatedRelation:
    """`6 = x * y` as `x * y = 6`."""
    return StatedRelation(f"{one.name}.symm", Relation("=", one.relation.right, one.relation.left))


def product_moves(one: StatedRelation, goal: PrintedGoal, *, integral: bool) -> Iterator[tuple[float, str]]:
    match (one.relation.left, numbers.constant_value(one.relation.right)):
        case (Operation("*", (left, right)), int(number)) if 0 < number <= LARGEST_PRODUCT:
            if len(divisors(number)) <= MOST_DIVISORS:
                if leaves(left) and not has_open_power(left):
                    yield 0.3, split_factor(one.name, left, number, goal, first=True, integral=integral)
                if leaves(right) and not has_open_power(right):
                    yield 0.35, split_factor(one.name, right, number, goal, first=False, integral=integral)
        case (Operation("*", _), 0):
            yield 0.1, f"cases ({'Int' if integral else 'Nat'}.mul_eq_zero.mp {one.name})"


def has_open_power(term: Term) -> bool:
    """True if an exponent in it is open: of all divisors few are such powers."""
    powers = (one for one in subterms(term) if isinstance(one, Operation) and one.sign == "^")
    return any(not isinstance(one.arguments[1], Number) for one in powers)


def split_factor(name: str, factor: Term, number: int, goal: PrintedGoal, *, first: bool, integral: bool) -> str:
    """A case for every divisor, with what the factor's variable is then."""
    key, found = goal.fresh("key")[0], goal.fresh("hf")[0]
    kind = "Int" if integral else "Nat"
    why = f"⟨_, ({name}).symm⟩" if first else f"⟨_, Eq.trans (({name}).symm) ({kind}.mul_comm _ _)⟩"
    values = divisors(number)
    test = f"decide ({number} % d = 0 → {disjunction(f'd = {value}' for value in values)})"
    checked = f"have {key} : (List.range {number + 1}).all (fun d => {test}) = true := by decide +kernel"
    text = term_text(factor)
    size = f"({text}).natAbs" if integral else f"({text})"
    why = f"Int.natAbs_dvd_natAbs.mpr (show {text} ∣ ({number} : Int) from {why})" if integral else why
    divides = f"have {found}d : {size} ∣ {number} := {why}"
    inside = f"(List.mem_range.mpr (Nat.lt_succ_of_le (Nat.le_of_dvd (by decide) {found}d)))"
    at = f"List.all_eq_true.mp {key} {size} {inside}"
    said = f"have {found}a := of_decide_eq_true ({at}) (Nat.mod_eq_zero_of_dvd {found}d)"
    signed = [sign * value for value in values for sign in ((1, -1) if integral else (1,))]
    return chain([checked, divides, said, *factor_cases(factor, signed, found, key, goal)])


def factor_cases(factor: Term, values: list[int], found: str, key: str, goal: PrintedGoal) -> list[str]:
    """A case for each value of the factor's variable, from `found`a, that the factor is one of the values."""
    what, possible = solve_factor(factor, values)
    if not possible:
        return ["exfalso", "omega"]
    either_of = disjunction(f"{what} = {value}" for value in possible)
    places = " ".join([*(fact.name for fact in goal.facts), "⊢"])
    put_in = f"((first | subst {found} | (simp only [{found}] at {places}) | skip); (try omega))"
    return [
        f"have {found} : {either_of} := by omega",
        f"clear {key} {found}d {found}a",
        f"({case_split(found, len(possible))}) <;> {put_in}",
    ]


def solve_factor(factor: Term, values: list[int]) -> tuple[str, list[int]]:
    """`3 * x + 1` among 1, 2, 4: x among 0, 1.  A factor that has more than one variable stays as it is."""
    form = numbers.polynomial(factor, naturals=False)
    others = [monomial for monomial in form if monomial]
    if len(others) != 1 or has_cut_off(factor):
        return term_text(factor), values
    (monomial,), constant = others, form.get((), 0)
    scale = form[monomial]
    exact = [(value - constant) // scale for value in values if (value - constant) % scale == 0]
    natural = all(value > 0 for value in values)
    return monomial_text(1, monomial), sorted(value for value in exact if value >= 0 or not natural)


def has_cut_off(factor: Term) -> bool:
    """True if it subtracts: of naturals that is not what polynomials do."""
    return isinstance(factor, Operation) and factor.sign == "-"


def complete_product(one: StatedRelation, *, integral: bool) -> Iterator[StatedRelation]:
    """`a x y + b x + c y = d` as `(a x + c) (a y + b) = a d + b c`."""
    form = numbers.difference(one.relation, naturals=not integral)
    for mixed in [monomial for monomial in form if len(monomial) == 2]:
        x, y = mixed[:1], mixed[1:]
        if set(form) <= {mixed, x, y, ()} and (x in form or y in form):
            yield from as_product(form, (mixed, x, y), integral=integral)


def as_product(
    form: Polynomial, monomials: tuple[Monomial, Monomial, Monomial], *, integral: bool
) -> Iterator[StatedRelation]:
    sign = 1 if form[monomials[0]] > 0 else -1
    a, b, c = (sign * form.get(monomial, 0) for monomial in monomials)
    d = -sign * form.get((), 0)
    number = a * d + b * c
    if number and (integral or min(b, c) >= 0):
        flip = -1 if number < 0 else 1
        left = f"({a} * {monomial_text(1, monomials[1])} + {term_text(Number(c))})"
        right = f"({term_text(Number(flip * a))} * {monomial_text(1, monomials[2])} + {term_text(Number(flip * b))})"
        terms = [read_term(text) for text in (left, right)]
        if terms[0] and terms[1]:
            relation = Relation("=", Operation("*", (terms[0], terms[1])), Number(abs(number)))
            said = f"{left} * {right} = {abs(number)}"
            yield StatedRelation(f"(show {said} by grind -verbose)", relation)


def division_facts(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, one in enumerate(arithmetic.fact_relations(goal)):
        if one.relation.sign == "∣" and one.relation.holds:
            yield TacticMove(1.0 + 0.05 * place, obtain_quotient(one, goal), SHORT)
            yield TacticMove(1.1 + 0.05 * place, f"have {goal.fresh('hd')[0]} := {divisor_bound(one, goal)}", SHORT)


def divide_all(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Write everything that is divided by a variable as a multiple of it."""
    facts = [one for one in arithmetic.fact_relations(goal) if one.relation.sign == "∣" and one.relation.holds]
    open_ones = [one for one in facts if leaves(one.relation.left)]
    names = zip(goal.fresh("k", len(open_ones)), goal.fresh("hk", len(open_ones)), strict=True)
    lines = [f"obtain ⟨{k}, {hk}⟩ := {one.name}; try subst {hk}" for one, (k, hk) in zip(open_ones, names, strict=True)]
    if lines:
        yield TacticMove(0.6, chain(lines), SHORT)


def obtain_quotient(one: StatedRelation, goal: PrintedGoal) -> str:
    k, hk = goal.fresh("k")[0], goal.fresh("hk")[0]
    return f"obtain ⟨{k}, {hk}⟩ := {one.name}"


def divisor_bound(one: StatedRelation, goal: PrintedGoal) -> str:
    owner = "Int" if arithmetic.is_integral_relation(one.relation, goal) else "Nat"
    return f"{owner}.le_of_dvd (by first | omega | (simp_all; done) | grind) {one.name}"


def propose_divisibility(goal: PrintedGoal) -> Iterator[TacticMove]:
    for term in [one for one in arithmetic.goal_subterms(goal) if isinstance(one, Operation)][:40]:
        if term.sign == "gcd":
            yield from gcd_moves(term.arguments[0], term.arguments[1], goal)
        if term.sign == "lcm":
            yield from lcm_moves(term.arguments[0], term.arguments[1], goal)
    if goal.connective == "∣":
        yield from divisibility_moves(goal)


def gcd_moves(left: Term, right: Term, goal: PrintedGoal) -> Iterator[TacticMove]:
    a, b = term_text(left, tight=True), term_text(right, tight=True)
    one, other = goal.fresh("hg", 2)
    if "∣" not in goal.propositions:
        facts = [f"have {one} := Nat.gcd_dvd_left {a} {b}", f"have {other} := Nat.gcd_dvd_right {a} {b}"]
        yield TacticMove(0.9, chain([*facts, "simp_all"]), SHORT)
        yield TacticMove(1.0, chain(facts), SHORT)
    if combined := constant_combination(left, right):
        yield TacticMove(0.1, eliminate_variable(a, b, combined, goal), LONG, closing=True)


def constant_combination(left: Term, right: Term) -> tuple[int, int, int] | None:
    """p, q, c with p * left - q * right = c for linear terms of the same one variable; c is not negative."""
    one, other = (numbers.linear_form(numbers.polynomial(side)) for side in (left, right))
    if one is None or other is None or len(one[0]) != 1 or one[0].keys() != other[0].keys():
        return None
    (a,), (b,) = one[0].values(), other[0].values()
    p, q = b // gcd(a, b), a // gcd(a, b)
    constant = p * one[1] - q * other[1]
    return (p, q, constant) if constant else None


def eliminate_variable(a: str, b: str, combined: tuple[int, int, int], goal: PrintedGoal) -> str:
    p, q, constant = combined
    g, one, other, name = *goal.fresh("g", 1), *goal.fresh("hg", 2), *goal.fresh("hd", 1)
    facts = [f"have {one} := Nat.gcd_dvd_left {a} {b}", f"have {other} := Nat.gcd_dvd_right {a} {b}"]
    first = (f"Nat.dvd_mul_left_of_dvd {one} {p}", f"Nat.dvd_mul_left_of_dvd {other} {q}")
    texts = (f"{p} * ({a})", f"{q} * ({b})")
    if constant < 0:
        first, texts = first[::-1], texts[::-1]
    size = abs(constant)
    apart = f"have h := Nat.dvd_sub ({first[0]}) ({first[1]})"
    known = f"rw [show {texts[0]} - {texts[1]} = {size} by omega] at h; exact h"
    divides = f"have {name} : Nat.gcd {a} {b} ∣ {size} := by ({apart}; {known})"
    small = f"have {name}b := Nat.le_of_dvd (by decide) {name}"
    positive = f"have {name}c : 0 < Nat.gcd {a} {b} := Nat.gcd_pos_of_pos_left _ (by omega)"
    general = f"generalize Nat.gcd {a} {b} = {g} at *"
    ends = f"first | omega | (simp_all; done) | ({split_small(g, size)}) | grind -verbose"
    return chain([*facts, divides, small, f"try ({positive})", general, ends])


def split_small(g: str, size: int) -> str:
    """Cases for every number up to a small one."""
    if size > 60:
        return "fail"
    values = " ∨ ".join(f"{g} = {value}" for value in range(size + 1))
    pattern = " | ".join(["rfl"] * (size + 1))
    ends = "first | omega | (simp_all; done) | (simp_all; omega)"
    return f"(have hv : {values} := by omega); (rcases hv with {pattern}) <;> ({ends})"


def lcm_moves(left: Term, right: Term, goal: PrintedGoal) -> Iterator[TacticMove]:
    a, b = term_text(left, tight=True), term_text(right, tight=True)
    if f"{a} ∣ " in goal.propositions:
        return  # all of this was said before
    names = goal.fresh("hl", 5)
    laws = ("gcd_mul_lcm", "dvd_lcm_left", "dvd_lcm_right", "gcd_dvd_left", "gcd_dvd_right")
    facts = [f"have {name} := Nat.{law} {a} {b}" for name, law in zip(names, laws, strict=True)]
    if "gcd" in goal.propositions or "lcm" in goal.target:
        equal = [fact.name for fact in arithmetic.equations(goal) if isinstance(fact.relation.left, Operation)]
        put_in = [f"try rw [{fact}] at {at}" for fact in equal for at in names]
        yield TacticMove(0.3, chain([*facts, *put_in]), SHORT)
    yield TacticMove(0.9, chain(facts[:3]), SHORT)
    if goal.connective == "≤" and "lcm" in goal.target:
        yield TacticMove(0.4, below_multiple(a, b, goal), MIDDLE)


def below_multiple(a: str, b: str, goal: PrintedGoal) -> str:
    """Bounds of two numbers by a bound of their multiple."""
    hlt, one, other = goal.fresh("hlt")[0], *goal.fresh("hb", 2)
    limit = goal.target.split(" ≤ ")[0]
    positive = "(Nat.lcm_pos (by omega) (by omega))"
    sizes = []
    for name, of, side in ((one, a, "left"), (other, b, "right")):
        part = f"Nat.le_of_dvd {positive} (Nat.dvd_lcm_{side} {a} {b})"
        sizes.append(f"have {name} : {of} < {limit} := Nat.lt_of_le_of_lt ({part}) {hlt}")
    return chain(["apply Nat.le_of_not_lt", f"intro {hlt}", *sizes])


def divisibility_moves(goal: PrintedGoal) -> Iterator[TacticMove]:
    for owner in ("Nat", "Int"):
        if goal.of_type(owner):
            yield TacticMove(1.2, f"apply {owner}.dvd_add", SHORT)
            yield TacticMove(1.3, f"apply {owner}.dvd_sub", SHORT)
            yield TacticMove(1.3, f"apply {owner}.dvd_trans", MIDDLE)


MOST_STEPS = 60  # of a division


def propose_quotients(goal: PrintedGoal) -> Iterator[TacticMove]:
    if goal.connective != "∣":
        return
    sides = [terms.read_term(side) for side in syntax.split_at(goal.target, "∣")]
    if len(sides) == 2 and sides[0] and sides[1] and terms.leaves(sides[0]):
        naturals = not goal.of_type("Int")
        by, whole = (numbers.polynomial(side, naturals=naturals) for side in sides if side)
        found = polynomial_quotient(whole, by)
        if found is not None and (not naturals or min(found.values(), default=0) >= 0):
            yield TacticMove(0.1, f"exact ⟨{polynomial_text(found)}, by grind -verbose⟩", MIDDLE, closing=True)


def polynomial_quotient(whole: Polynomial, by: Polynomial) -> Polynomial | None:
    """Quotient of polynomials, None where something would be left."""
    found: Polynomial = {}
    for _ in range(MOST_STEPS):
        if not whole:
            return found
        lead, under = leading_monomial(whole), leading_monomial(by)
        step = divide_monomial(lead, under)
        if step is None or whole[lead] % by[under]:
            return None
        part = {step: whole[lead] // by[under]}
        found = numbers.add_polynomials(found, part)
        whole = numbers.add_polynomials(whole, numbers.multiply_polynomials(part, by), -1)
    return None


def leading_monomial(form: Polynomial) -> Monomial:
    """The first monomial in the order of the dictionary, which products keep."""
    names = numbers.leaf_names(form)
    return max(form, key=lambda one: tuple(dict(one).get(name, 0) for name in names))


def divide_monomial(monomial: Monomial, under: Monomial) -> Monomial | None:
    left = dict(monomial)
    for name, times in under:
        left[name] = left.get(name, 0) - times
    return None if min(left.values(), default=0) < 0 else tuple(sorted((name, at) for name, at in left.items() if at))
