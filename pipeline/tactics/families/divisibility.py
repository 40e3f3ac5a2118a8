"""Divisors: factors of a number, greatest common divisors, and polynomials that divide each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from pipeline.tactics.text import arithmetic, terms
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, TacticMove, case_split, chain, disjunction
from pipeline.tactics.text.terms import Monomial, Number, Operation, Polynomial, Term, leaves, read_relation, term_text

LARGEST_PRODUCT = 4000
MOST_DIVISORS = 36


def propose_factors(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, one in enumerate(arithmetic.equations(goal)):
        for fact in (one, one.swapped(), *complete_product(one)):
            for cost, tactic in product_moves(fact, goal):
                yield TacticMove(cost + 0.05 * place, tactic, LONG)
    for place, one in enumerate(arithmetic.fact_relations(goal)):
        if one.relation.sign == "∣" and one.relation.holds:
            bound = f"{one.kind}.le_of_dvd (by first | omega | (simp_all; done) | grind) {one.name}"
            yield TacticMove(1.0 + 0.05 * place, f"obtain ⟨{goal.fresh('k')[0]}, {goal.fresh('hk')[0]}⟩ := {one.name}")
            yield TacticMove(1.1 + 0.05 * place, f"have {goal.fresh('hd')[0]} := {bound}")
    # everything that is divided by a variable is a multiple of it
    facts = [one.name for one in arithmetic.fact_relations(goal, "∣") if leaves(one.relation.left)]
    names = zip(facts, goal.free_names("k"), goal.free_names("hk"), strict=False)
    if facts:
        yield TacticMove(0.6, chain(f"obtain ⟨{k}, {hk}⟩ := {fact}; try subst {hk}" for fact, k, hk in names))


def product_moves(one: StatedRelation, goal: PrintedGoal) -> Iterator[tuple[float, str]]:
    match (one.relation.left, terms.constant_value(one.relation.right)):
        case (Operation("*", factors), int(number)) if 0 < number <= LARGEST_PRODUCT:
            values = [one for one in range(1, number + 1) if number % one == 0]
            for is_first, factor in zip((True, False), factors, strict=True) if len(values) <= MOST_DIVISORS else ():
                powers = [one for one in terms.subterms(factor) if isinstance(one, Operation) and one.sign == "^"]
                # of all divisors few are powers with an open exponent
                if leaves(factor) and all(isinstance(power.arguments[1], Number) for power in powers):
                    yield 0.3 if is_first else 0.35, split_factor(one, factor, values, goal, is_first=is_first)
        case (Operation("*", _), 0):
            yield 0.1, f"cases ({one.kind}.mul_eq_zero.mp {one.name})"


def split_factor(one: StatedRelation, factor: Term, values: list[int], goal: PrintedGoal, *, is_first: bool) -> str:
    """A case for every divisor, with what the factor's variable is then."""
    key, found = goal.fresh("key")[0], goal.fresh("hf")[0]
    number, text = values[-1], term_text(factor)
    test = f"decide ({number} % d = 0 → {disjunction(f'd = {value}' for value in values)})"
    checked = f"have {key} : (List.range {number + 1}).all (fun d => {test}) = true := by decide +kernel"
    product = f"({one.name}).symm"
    why = f"⟨_, {product}⟩" if is_first else f"⟨_, Eq.trans ({product}) ({one.kind}.mul_comm _ _)⟩"
    size, signs = f"({text})", [1]
    if one.kind == "Int":
        size, signs = f"({text}).natAbs", [1, -1]
        why = f"Int.natAbs_dvd_natAbs.mpr (show {text} ∣ ({number} : Int) from {why})"
    divides = f"have {found}d : {size} ∣ {number} := {why}"
    inside = f"(List.mem_range.mpr (Nat.lt_succ_of_le (Nat.le_of_dvd (by decide) {found}d)))"
    at = f"List.all_eq_true.mp {key} {size} {inside}"
    among = f"have {found}a := of_decide_eq_true ({at}) (Nat.mod_eq_zero_of_dvd {found}d)"
    signed = [sign * value for value in values for sign in signs]
    return chain([checked, divides, among, *factor_cases(factor, signed, found, key, goal)])


def factor_cases(factor: Term, values: list[int], found: str, key: str, goal: PrintedGoal) -> list[str]:
    """A case for each value of the factor's variable, from `found`a: `3 * x + 1` among 1, 2, 4 is x among 0, 1."""
    what, possible = term_text(factor), values
    form = terms.polynomial(factor, "Int")
    # a factor with more variables stays as it is, and so does one that subtracts: naturals do that in their own way
    if len(form.keys() - {()}) == 1 and not (isinstance(factor, Operation) and factor.sign == "-"):
        (monomial,), constant = form.keys() - {()}, form.get((), 0)
        exact = [divmod(value - constant, form[monomial]) for value in values]
        whole = sorted(quotient for quotient, rest in exact if not rest)
        what, possible = terms.monomial_text(1, monomial), [one for one in whole if one >= 0 or min(values) < 0]
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


def complete_product(one: StatedRelation) -> Iterator[StatedRelation]:
    """`a x y + b x + c y = d` as `(a x + c) (a y + b) = a d + b c`."""
    form = one.form
    for mixed in [monomial for monomial in form if len(monomial) == 2]:
        x, y = mixed[:1], mixed[1:]
        if not set(form) <= {mixed, x, y, ()} or (x not in form and y not in form):
            continue
        sign = 1 if form[mixed] > 0 else -1
        a, b, c, d = (sign * form.get(monomial, 0) for monomial in (mixed, x, y, ()))
        number = b * c - a * d
        if number and (one.kind == "Int" or min(b, c) >= 0):
            flip = -1 if number < 0 else 1
            left = f"({a} * {terms.monomial_text(1, x)} + {term_text(Number(c))})"
            right = f"({term_text(Number(flip * a))} * {terms.monomial_text(1, y)} + {term_text(Number(flip * b))})"
            if relation := read_relation(f"{left} * {right} = {abs(number)}"):
                name = f"(show {left} * {right} = {abs(number)} by grind -verbose)"
                yield StatedRelation(name, relation, one.kind)


def propose_divisibility(goal: PrintedGoal) -> Iterator[TacticMove]:
    for term in [one for one in arithmetic.goal_subterms(goal) if isinstance(one, Operation)][:40]:
        if term.sign in ("gcd", "lcm"):
            yield from (gcd_moves if term.sign == "gcd" else lcm_moves)(term, goal)
    for owner in ("Nat", "Int") if goal.connective == "∣" else ():
        if goal.of_type(owner):
            yield TacticMove(1.2, f"apply {owner}.dvd_add")
            yield TacticMove(1.3, f"apply {owner}.dvd_sub")
            yield TacticMove(1.3, f"apply {owner}.dvd_trans", MIDDLE)


def gcd_moves(term: Operation, goal: PrintedGoal) -> Iterator[TacticMove]:
    a, b = (term_text(one, tight=True) for one in term.arguments)
    one, other = goal.fresh("hg", 2)
    facts = [f"have {one} := Nat.gcd_dvd_left {a} {b}", f"have {other} := Nat.gcd_dvd_right {a} {b}"]
    if "∣" not in goal.propositions:
        yield TacticMove(0.9, chain([*facts, "simp_all"]))
        yield TacticMove(1.0, chain(facts))
    if combined := constant_combination(*term.arguments):
        tactic = chain([*facts, *eliminate_variable((a, b), (one, other), combined, goal)])
        yield TacticMove(0.1, tactic, LONG, closing=True)


def constant_combination(left: Term, right: Term) -> tuple[int, int, int] | None:
    """p, q, c with p * left - q * right = c for linear terms of the same one variable; c is not 0."""
    one, other = terms.linear_form(left), terms.linear_form(right)
    if one is None or other is None or len(one[0]) != 1 or one[0].keys() != other[0].keys():
        return None
    (a,), (b,) = one[0].values(), other[0].values()
    p, q = b // gcd(a, b), a // gcd(a, b)
    constant = p * one[1] - q * other[1]
    return (p, q, constant) if constant else None


def eliminate_variable(
    sides: tuple[str, str], divides: tuple[str, str], combined: tuple[int, int, int], goal: PrintedGoal
) -> Iterator[str]:
    """Steps to a small gcd: it divides the constant that a combination of both sides is."""
    *factors, constant = combined
    g, name, size = goal.fresh("g")[0], goal.fresh("hd")[0], abs(constant)
    whole = f"Nat.gcd {sides[0]} {sides[1]}"
    parts = [*zip(factors, sides, divides, strict=True)][:: 1 if constant > 0 else -1]
    apart = " ".join(f"(Nat.dvd_mul_left_of_dvd {fact} {factor})" for factor, _, fact in parts)
    less = " - ".join(f"{factor} * ({side})" for factor, side, _ in parts)
    known = f"rw [show {less} = {size} by omega] at h; exact h"
    yield f"have {name} : {whole} ∣ {size} := by (have h := Nat.dvd_sub {apart}; {known})"
    yield f"have {name}b := Nat.le_of_dvd (by decide) {name}"
    yield f"try (have {name}c : 0 < {whole} := Nat.gcd_pos_of_pos_left _ (by omega))"
    yield f"generalize {whole} = {g} at *"
    small = "fail"  # cases for every number up to a small one
    if size <= 60:
        values = disjunction(f"{g} = {value}" for value in range(size + 1))
        ends = "first | omega | (simp_all; done) | (simp_all; omega)"
        small = f"(have hv : {values} := by omega); ({case_split('hv', size + 1, 'rfl')}) <;> ({ends})"
    yield f"first | omega | (simp_all; done) | ({small}) | grind -verbose"


def lcm_moves(term: Operation, goal: PrintedGoal) -> Iterator[TacticMove]:
    a, b = (term_text(one, tight=True) for one in term.arguments)
    if f"{a} ∣ " in goal.propositions:
        return  # all of this was said before
    names = goal.fresh("hl", 5)
    laws = ("gcd_mul_lcm", "dvd_lcm_left", "dvd_lcm_right", "gcd_dvd_left", "gcd_dvd_right")
    facts = [f"have {name} := Nat.{law} {a} {b}" for name, law in zip(names, laws, strict=True)]
    if "gcd" in goal.propositions or "lcm" in goal.target:
        equal = [fact.name for fact in arithmetic.equations(goal) if isinstance(fact.relation.left, Operation)]
        put_in = [f"try rw [{fact}] at {at}" for fact in equal for at in names]
        yield TacticMove(0.3, chain([*facts, *put_in]))
    yield TacticMove(0.9, chain(facts[:3]))
    if goal.connective == "≤" and "lcm" in goal.target:
        hlt, limit = goal.fresh("hlt")[0], goal.target.split(" ≤ ")[0]
        lines = ["apply Nat.le_of_not_lt", f"intro {hlt}"]
        for name, of, side in zip(goal.fresh("hb", 2), (a, b), ("left", "right"), strict=True):
            part = f"Nat.le_of_dvd (Nat.lcm_pos (by omega) (by omega)) (Nat.dvd_lcm_{side} {a} {b})"
            lines.append(f"have {name} : {of} < {limit} := Nat.lt_of_le_of_lt ({part}) {hlt}")
        yield TacticMove(0.4, chain(lines), MIDDLE)


MOST_STEPS = 60  # of a division


def propose_quotients(goal: PrintedGoal) -> Iterator[TacticMove]:
    relation = read_relation(goal.target) if goal.connective == "∣" else None
    if relation and leaves(relation.left):
        kind = "Int" if goal.of_type("Int") else "Nat"
        by, whole = (terms.polynomial(side, kind) for side in (relation.left, relation.right))
        found = polynomial_quotient(whole, by)
        if found is not None and (kind == "Int" or min(found.values(), default=0) >= 0):
            yield TacticMove(0.1, f"exact ⟨{terms.polynomial_text(found)}, by grind -verbose⟩", MIDDLE, closing=True)


def polynomial_quotient(whole: Polynomial, by: Polynomial) -> Polynomial | None:
    """Quotient of polynomials, None where something would be left."""
    found: Polynomial = {}
    for _ in range(MOST_STEPS if by else 0):
        if not whole:
            return found
        lead, under = leading_monomial(whole), leading_monomial(by)
        step = terms.multiply_monomials(lead, under, -1)
        if any(times < 0 for _, times in step) or whole[lead] % by[under]:
            return None
        part = {step: whole[lead] // by[under]}
        found = terms.add_polynomials(found, part)
        whole = terms.add_polynomials(whole, terms.multiply_polynomials(part, by), -1)
    return None


def leading_monomial(form: Polynomial) -> Monomial:
    """The first monomial in the order of the dictionary, which products keep."""
    names = terms.leaf_names(form)
    return max(form, key=lambda one: tuple(dict(one).get(name, 0) for name in names))
