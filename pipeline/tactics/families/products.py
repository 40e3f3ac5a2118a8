"""Products and powers: inequalities multiplied, facts put together for omega or grind; residues of powers; roots."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations
from typing import NamedTuple

from pipeline.tactics.text import arithmetic, syntax, terms
from pipeline.tactics.text.arithmetic import StatedRelation
from pipeline.tactics.text.goal import PrintedGoal
from pipeline.tactics.text.tactic import LONG, MIDDLE, TacticMove, case_split, chain, disjunction, ranked
from pipeline.tactics.text.terms import Leaf, Number, Operation, Relation, Term, leaves, subterms, term_text

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


# --- Powers and roots: how powers repeat modulo a number, that they are positive, how they grow; powers that are a
# number, whose open exponent cannot be large.
LONGEST_PERIOD = 24
FEW_CASES, MOST_CASES = 30, 200
LARGEST_COMPUTED = 5000  # exponents up to this are left to the kernel


class Power(NamedTuple):
    """A number to an exponent that is not one."""

    base: int
    exponent: Term
    kind: str

    @property
    def raised(self) -> str:
        """The base, and the sign of a power."""
        return f"({self.base} : {self.kind}) ^"

    @property
    def at(self) -> str:
        """The exponent as an argument."""
        return term_text(self.exponent, tight=True)


def propose_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    yield from reduce_large_powers(goal)
    powers = open_powers(goal)
    for modulus in arithmetic.moduli(goal)[:2]:
        yield from repeat_modulo(powers[:3], modulus)
    name, subtracts = goal.fresh("hp")[0], " - " in goal.propositions
    texts = ((term_text(one), one) for one in arithmetic.operations(goal, "^") if leaves(one))
    unsettled = [(text, one) for text, one in texts if f"0 < {text}" not in goal.propositions]
    kinds = ((text, arithmetic.term_kind(one, goal)) for text, one in unsettled[:3])
    positive = (f"have {name} : 0 < {text} := {kind}.pow_pos (by omega)" for text, kind in kinds)
    yield from ranked(0.8 if subtracts else 1.3, 0.1, positive)
    for place, power in enumerate(powers[:2]):
        if power.base > 1 and power.kind == "Nat":
            grows = f"{term_text(power.exponent)} < {power.raised} {power.at} := Nat.lt_pow_self (by omega)"
            yield TacticMove((0.6 if subtracts else 1.3) + 0.1 * place, f"have {name} : {grows}")


def reduce_large_powers(goal: PrintedGoal) -> Iterator[TacticMove]:
    """Powers so large that they cannot be computed, modulo a number: their exponents counted in periods."""
    large = [
        (base.value, exponent.value)
        for base, exponent in (one.arguments for one in arithmetic.operations(goal, "^"))
        if isinstance(base, Number) and isinstance(exponent, Number)
        if base.value > 1 and exponent.value > LARGEST_COMPUTED
    ]
    for modulus in arithmetic.moduli(goal)[:2] if large else ():
        lines = []
        for (base, exponent), name in zip(large, goal.free_names("hr"), strict=False):
            start, period = power_cycle(base, modulus)
            rest = start + (exponent - start) % period
            times = (exponent - rest) // period
            counted, why = f"{base} ^ ({period} * q + {rest})", period_proof(f"({base} : Nat) ^", "Nat", rest, period)
            lines += [
                f"have {name} : ∀ q : Nat, {counted} % {modulus} = {base**rest % modulus} := by ({why})",
                f"have {name} := {name} {times}",
                f"rw [show {period} * {times} + {rest} = {exponent} from rfl] at {name}",
            ]
        lines += [f"generalize {b} ^ {e} = {t} at *" for (b, e), t in zip(large, goal.free_names("t"), strict=False)]
        yield TacticMove(0.05, chain([*lines, "omega"]), LONG, closing=True)


def open_powers(goal: PrintedGoal) -> list[Power]:
    """Powers of numbers with a variable in the exponent; exponents are naturals always."""
    stated = arithmetic.stated_relations(goal)
    integral = any(one.kind == "Int" for one in stated) or (not stated and goal.of_type("Int"))
    return [
        Power(base.value, exponent, "Int" if integral else "Nat")
        for base, exponent in (one.arguments for one in arithmetic.operations(goal, "^"))
        if isinstance(base, Number) and leaves(exponent) and abs(base.value) < 10**6
    ]


def repeat_modulo(powers: list[Power], modulus: int) -> Iterator[TacticMove]:
    """Split by cases on the exponent modulo the period, with what every power is then."""
    tables = {f"ht{place}": residue_table(power, modulus, f"ht{place}") for place, power in enumerate(powers)}
    many = math.prod(sum(power_cycle(power.base, modulus)) for power in powers)
    lines = [line for table in tables.values() for line in table]
    if not lines or many > MOST_CASES:
        return
    apart = " <;> ".join(f"(rcases {name} with {name})" for name, table in tables.items() if table)
    cases = f"{apart} <;> (first | omega | (simp_all; omega) | grind -verbose)"
    yield TacticMove(0.1 if many <= FEW_CASES else 0.8, chain([*lines, cases]), LONG, closing=True)
    yield TacticMove(0.7, chain(lines), LONG)


def residue_table(power: Power, modulus: int, name: str) -> list[str]:
    """Tactics that state the residue of the power for every residue of its exponent; none where the period is long."""
    start, period = power_cycle(power.base, modulus)
    if period > LONGEST_PERIOD or start > 4:
        return []
    e, of = power.at, power.raised
    claim = f"∀ q : Nat, {of} ({period} * q + {start}) % {modulus} = {power.base**start % modulus}"
    again = f"have {name}r : {claim} := by ({period_proof(of, power.kind, start, period)})"
    alternatives = [f"({e} = {at} ∧ {of} {e} = {power.base**at})" for at in range(start)] + [
        f"({e} ≥ {start} ∧ {e} % {period} = {at % period} ∧ {of} {e} % {modulus} = {power.base**at % modulus})"
        for at in range(start, start + period)
    ]
    cases = exponent_cases(power, start, period, modulus, name)
    positive = [f"have {name}p : 0 < {of} {e} := {power.kind}.pow_pos (by decide)"] if power.base > 0 else []
    return [again, *positive, f"have {name} : {disjunction(alternatives)} := by ({cases})"]


def period_proof(raised: str, kind: str, start: int, period: int) -> str:
    """Proof by induction that the period is one."""
    at = f"{period} * q + {start}"
    next_one = f"rw [show {period} * (q + 1) + {start} = ({at}) + {period} by omega, {kind}.pow_add]"
    step = f"({next_one}; generalize {raised} ({at}) = t at *; omega)"
    return f"intro q; induction q with | zero => decide | succ q ih => {step}"


def exponent_cases(power: Power, start: int, period: int, modulus: int, name: str) -> str:
    """Cases of an exponent: it is small, or one of a period beyond the start."""
    e, of = power.at, power.raised
    times = f"(({e} - {start}) / {period})"
    forms = [f"{e} = ({period} * {times} + {start}) + {step}" for step in range(period)]
    split = f"have hr : {disjunction([*(f'{e} = {at}' for at in range(start)), *forms])} := by omega"
    law = f"{power.kind}.mul_{'mod' if power.kind == 'Nat' else 'emod'}"
    value = f"(by (have hv := congrArg (fun k => {of} k % {modulus}) hr); simp only at hv; rw [hv]; "
    value += f"rw [{power.kind}.pow_add, {law}, {name}r {times}] <;> rfl)"
    proofs = ["⟨hr, by rw [hr] <;> rfl⟩"] * start + [f"⟨by omega, by omega, {value}⟩"] * period
    chosen = [f"(Or.inl {proof})" for proof in proofs[:-1]] + proofs[-1:]
    exact = [f"(exact {'(Or.inr ' * place}{one}{')' * place})" for place, one in enumerate(chosen)]
    return "; ".join([f"({split})", case_split("hr", start + period), *exact])


def power_cycle(base: int, modulus: int) -> tuple[int, int]:
    """Number of powers before they repeat, and the length of the period."""
    seen: dict[int, int] = {}
    residue, exponent = 1 % modulus, 0
    while residue not in seen:
        seen[residue] = exponent
        residue, exponent = residue * base % modulus, exponent + 1
    return seen[residue], exponent - seen[residue]


LARGEST_EXPONENT = 60


def propose_roots(goal: PrintedGoal) -> Iterator[TacticMove]:
    for place, fact in enumerate(arithmetic.equations(goal)):
        for one in (fact, fact.swapped()):
            match (as_power(one.relation.left), terms.constant_value(one.relation.right)):
                case ((base, exponent), int(number)) if number > 0 and (exponent == 2 or one.kind == "Nat"):
                    tactic = take_root(one, base, exponent, number, goal)
                    yield TacticMove(0.2 + 0.05 * place, tactic, MIDDLE)
            yield from exponent_bounds(one, goal)


def as_power(term: Term) -> tuple[Term, int] | None:
    """`x ^ 3`, and `x * x`."""
    match term:
        case Operation("^", (base, Number(exponent))) if leaves(base) and exponent > 1:
            return base, exponent
        case Operation("*", (left, right)) if left == right and leaves(left):
            return left, 2
    return None


def take_root(one: StatedRelation, base: Term, exponent: int, number: int, goal: PrintedGoal) -> str:
    """The base is a root of the number, or there is none; the root of an integer's square goes by absolute values."""
    value, found, text = terms.floor_root(number, exponent), goal.fresh("hf")[0], f"({term_text(base)})"
    given = f"{number} := by (have he := {one.name}; grind -verbose)"
    if one.kind == "Nat":
        size, lines, signs = text, [f"have {found}p : {text} ^ {exponent} = {given}"], []
        bounded = f"Nat.pow_le_pow_left {{0}} {exponent}"
        smaller = f"Nat.pow_lt_pow_left hv (show {exponent} ≠ 0 by decide)"
    else:
        size, bounded, smaller = f"{text}.natAbs", "Nat.mul_le_mul {0} {0}", "Nat.mul_self_lt_mul_self hv"
        squared = f"{size} * {size} = {number} := by (rw [← Int.natAbs_mul, {found}m]; rfl)"
        lines = [f"have {found}m : {text} * {text} = {given}", f"have {found}p : {squared}"]
        signs = [f"have {found}s : {text} = {value} ∨ {text} = -{value} := by omega"]
        signs.append(f"rcases {found}s with {found}s | {found}s")
    if value**exponent != number:
        split = f"rcases Nat.lt_or_ge {size} {value + 1} with hv | hv"
        absurd = [f"(have hw := {bounded.format(hv)}; omega)" for hv in ("(Nat.le_of_lt_succ hv)", "hv")]
        return chain([*lines, "exfalso", split, *absurd])
    split, differs = f"rcases Nat.lt_trichotomy {size} {value} with hv | hv | hv", f"(have hw := {smaller}; omega)"
    lines.append(f"have {found} : {size} = {value} := by ({split}; {differs}; (exact hv); {differs})")
    return chain([*lines, *signs])


def exponent_bounds(one: StatedRelation, goal: PrintedGoal) -> Iterator[TacticMove]:
    """`2 ^ x * … = n`: 2 ^ x divides n, or is at most n, and so x is at most a logarithm."""
    side, other = one.relation.left, one.relation.right
    if not isinstance(other, Number) or other.value <= 0 or arithmetic.term_kind(side, goal) == "Int":
        return
    lines: list[str] = []
    for power in subterms(side):
        match power:
            case Operation("^", (Number(base), Leaf(e))) if base > 1 and f"{e} ≤ " not in goal.propositions:
                largest = next((at for at in range(LARGEST_EXPONENT) if base ** (at + 1) > other.value), 0)
                name = goal.fresh("hb", len(lines) + 1)[-1]
                divides = f"(rw [← {one.name}]; first | exact Nat.dvd_mul_right _ _ | exact Nat.dvd_mul_left _ _)"
                small = f"first | omega | exact Nat.le_of_dvd (by decide) (by {divides})"
                grows = f"have hp := Nat.pow_le_pow_right (n := {base}) (by decide) hlt"
                bounded = f"(have he : {term_text(power)} ≤ {other.value} := by {small})"
                why = f"(apply Nat.le_of_not_lt; intro hlt; ({grows}); {bounded}; omega)"
                lines.append(f"have {name} : {e} ≤ {largest} := by {why}")
    if lines:
        yield TacticMove(0.1, chain(lines))
