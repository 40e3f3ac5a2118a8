"""Products that are a number: each factor is one of its divisors; sums that become a product when a number is added."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.tactics import arithmetic, numbers
from pipeline.tactics.arithmetic import Stated
from pipeline.tactics.goal import PrintedGoal
from pipeline.tactics.move import LONG, SHORT, Move
from pipeline.tactics.numbers import Monomial, Polynomial
from pipeline.tactics.scripts import cases, chain, divisors, either
from pipeline.tactics.terms import Number, Operation, Relation, Term, leaves, read_term, shown, subterms

LARGEST = 4000
MOST = 36  # divisors


def propose(goal: PrintedGoal) -> Iterator[Move]:
    for place, one in enumerate(arithmetic.equations(goal)):
        integral = arithmetic.integral(one.relation, goal)
        for fact in (one, turned(one)):
            for cost, tactic in products(fact, goal, integral=integral):
                yield Move(cost + 0.05 * place, "factors", tactic, LONG)
        for made in completed(one, integral=integral):
            for cost, tactic in products(made, goal, integral=integral):
                yield Move(cost + 0.05 * place, "factors", tactic, LONG)
    yield from divided(goal)


def turned(one: Stated) -> Stated:
    """`6 = x * y` as `x * y = 6`."""
    return Stated(f"{one.name}.symm", Relation("=", one.relation.right, one.relation.left))


def products(one: Stated, goal: PrintedGoal, *, integral: bool) -> Iterator[tuple[float, str]]:
    match (one.relation.left, one.relation.right):
        case (Operation("*", (left, right)), Number(number)) if 0 < number <= LARGEST:
            if len(divisors(number)) <= MOST:
                if leaves(left) and not open_power(left):
                    yield 0.3, split(one.name, left, number, goal, first=True, integral=integral)
                if leaves(right) and not open_power(right):
                    yield 0.35, split(one.name, right, number, goal, first=False, integral=integral)
        case (Operation("*", _), Number(0)):
            yield 0.1, f"cases ({'Int' if integral else 'Nat'}.mul_eq_zero.mp {one.name})"


def open_power(term: Term) -> bool:
    """Whether an exponent in it is open: of all divisors few are such powers."""
    powers = (one for one in subterms(term) if isinstance(one, Operation) and one.sign == "^")
    return any(not isinstance(one.arguments[1], Number) for one in powers)


def split(name: str, factor: Term, number: int, goal: PrintedGoal, *, first: bool, integral: bool) -> str:
    """A case for every divisor, with what the factor's variable is then."""
    key, found = goal.fresh("key")[0], goal.fresh("hf")[0]
    kind = "Int" if integral else "Nat"
    why = f"⟨_, ({name}).symm⟩" if first else f"⟨_, Eq.trans (({name}).symm) ({kind}.mul_comm _ _)⟩"
    values = divisors(number)
    test = f"decide ({number} % d = 0 → {either(f'd = {value}' for value in values)})"
    checked = f"have {key} : (List.range {number + 1}).all (fun d => {test}) = true := by decide +kernel"
    text = shown(factor)
    size = f"({text}).natAbs" if integral else f"({text})"
    why = f"Int.natAbs_dvd_natAbs.mpr (show {text} ∣ ({number} : Int) from {why})" if integral else why
    divides = f"have {found}d : {size} ∣ {number} := {why}"
    inside = f"(List.mem_range.mpr (Nat.lt_succ_of_le (Nat.le_of_dvd (by decide) {found}d)))"
    at = f"List.all_eq_true.mp {key} {size} {inside}"
    said = f"have {found}a := of_decide_eq_true ({at}) (Nat.mod_eq_zero_of_dvd {found}d)"
    signed = [sign * value for value in values for sign in ((1, -1) if integral else (1,))]
    return chain([checked, divides, said, *taken(factor, signed, found, key, goal)])


def taken(factor: Term, values: list[int], found: str, key: str, goal: PrintedGoal) -> list[str]:
    """From `found`a, that the factor is one of the values, to a case for each that its variable can have."""
    what, possible = solved(factor, values)
    if not possible:
        return ["exfalso", "omega"]
    either_of = either(f"{what} = {value}" for value in possible)
    places = " ".join([*(fact.name for fact in goal.facts), "⊢"])
    put_in = f"((first | subst {found} | (simp only [{found}] at {places}) | skip); (try omega))"
    return [
        f"have {found} : {either_of} := by omega",
        f"clear {key} {found}d {found}a",
        f"({cases(found, len(possible))}) <;> {put_in}",
    ]


def solved(factor: Term, values: list[int]) -> tuple[str, list[int]]:
    """`3 * x + 1` among 1, 2, 4: x among 0, 1.  A factor that has more than one variable stays as it is."""
    form = numbers.polynomial(factor, naturals=False)
    others = [monomial for monomial in form if monomial]
    if len(others) != 1 or has_cut_off(factor):
        return shown(factor), values
    (monomial,), constant = others, form.get((), 0)
    scale = form[monomial]
    exact = [(value - constant) // scale for value in values if (value - constant) % scale == 0]
    natural = all(value > 0 for value in values)
    return power_text(monomial), sorted(value for value in exact if value >= 0 or not natural)


def has_cut_off(factor: Term) -> bool:
    """Whether it subtracts: of naturals that is not what polynomials do."""
    return isinstance(factor, Operation) and factor.sign == "-"


def power_text(monomial: Monomial) -> str:
    tight = [(f"({name})" if " " in name else name, times) for name, times in monomial]
    return " * ".join(name if times == 1 else f"{name} ^ {times}" for name, times in tight)


def completed(one: Stated, *, integral: bool) -> Iterator[Stated]:
    """`a x y + b x + c y = d` as `(a x + c) (a y + b) = a d + b c`."""
    form = numbers.difference(one.relation, naturals=not integral)
    for mixed in [monomial for monomial in form if len(monomial) == 2]:
        x, y = mixed[:1], mixed[1:]
        if set(form) <= {mixed, x, y, ()} and (x in form or y in form):
            yield from as_product(form, (mixed, x, y), integral=integral)


def as_product(form: Polynomial, monomials: tuple[Monomial, Monomial, Monomial], *, integral: bool) -> Iterator[Stated]:
    sign = 1 if form[monomials[0]] > 0 else -1
    a, b, c = (sign * form.get(monomial, 0) for monomial in monomials)
    d = -sign * form.get((), 0)
    number = a * d + b * c
    if number and (integral or min(b, c) >= 0):
        flip = -1 if number < 0 else 1
        left = f"({a} * {power_text(monomials[1])} + {numeral(c)})"
        right = f"({numeral(flip * a)} * {power_text(monomials[2])} + {numeral(flip * b)})"
        terms = [read_term(text) for text in (left, right)]
        if terms[0] and terms[1]:
            relation = Relation("=", Operation("*", (terms[0], terms[1])), Number(abs(number)))
            said = f"{left} * {right} = {abs(number)}"
            yield Stated(f"(show {said} by grind -verbose)", relation)


def numeral(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def divided(goal: PrintedGoal) -> Iterator[Move]:
    for place, one in enumerate(arithmetic.known(goal)):
        if one.relation.sign == "∣" and one.relation.holds:
            yield Move(1.0 + 0.05 * place, "factors", quotient(one, goal), SHORT)
            yield Move(1.1 + 0.05 * place, "factors", f"have {goal.fresh('hd')[0]} := {below(one, goal)}", SHORT)


def quotient(one: Stated, goal: PrintedGoal) -> str:
    k, hk = goal.fresh("k")[0], goal.fresh("hk")[0]
    return f"obtain ⟨{k}, {hk}⟩ := {one.name}"


def below(one: Stated, goal: PrintedGoal) -> str:
    owner = "Int" if arithmetic.integral(one.relation, goal) else "Nat"
    return f"{owner}.le_of_dvd (by first | omega | (simp_all; done) | grind) {one.name}"
