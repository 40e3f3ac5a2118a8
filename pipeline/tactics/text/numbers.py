"""Terms computed: their value, their value modulo a number, and as polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product

from pipeline.tactics.text.terms import LARGEST_VALUE, Leaf, Number, Operation, Relation, Term, term_text

Monomial = tuple[tuple[str, int], ...]  # leaves with their powers, sorted
Polynomial = dict[Monomial, int]


class NoValue(Exception):
    """No value is known for a leaf, or it is too large."""


def evaluate(term: Term, known: Mapping[str, int], *, naturals: bool = True) -> int:
    """Evaluate as Lean does: subtraction of naturals ends at 0, division by 0 is 0."""
    if isinstance(term, Number):
        return term.value
    if isinstance(term, Leaf):
        if term.name not in known:
            raise NoValue(term.name)
        return known[term.name]
    numbers = [evaluate(one, known, naturals=naturals) for one in term.arguments]
    found = max(0, OPERATIONS[term.sign](*numbers)) if naturals else OPERATIONS[term.sign](*numbers)
    if abs(found) > LARGEST_VALUE:
        raise NoValue(term.sign)
    return found


def constant_value(term: Term) -> int | None:
    """The value of a term without leaves."""
    try:
        return evaluate(term, {})
    except NoValue:
        return None


def power_value(base: int, exponent: int) -> int:
    if exponent < 0 or exponent * base.bit_length() > 200:
        raise NoValue("^")
    return int(base**exponent)


OPERATIONS: Mapping[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: (a // b if b > 0 else -(a // -b)) if b else 0,
    "%": lambda a, b: a % abs(b) if b else a,
    "^": power_value,
    "gcd": math.gcd,
    "lcm": math.lcm,
    "neg": lambda a: -a,
}

COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "≤": lambda a, b: a <= b,
    "<": lambda a, b: a < b,
    "≥": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
    "∣": lambda a, b: b % a == 0 if a else b == 0,
}


def is_true(relation: Relation, known: Mapping[str, int]) -> bool:
    """True if both sides have a value, and the relation holds between those."""
    try:
        left, right = evaluate(relation.left, known), evaluate(relation.right, known)
    except NoValue:
        return False
    return bool(COMPARISONS[relation.sign](left, right)) == relation.holds


def polynomial(term: Term, *, naturals: bool = True) -> Polynomial:
    """The polynomial of a term, multiplied out; any other term than a sum or product is a leaf by its text."""
    match term:
        case Number(number):
            return {(): number} if number else {}
        case Operation("+", (left, right)):
            return add_polynomials(polynomial(left, naturals=naturals), polynomial(right, naturals=naturals))
        case Operation("*", (left, right)):
            return multiply_polynomials(polynomial(left, naturals=naturals), polynomial(right, naturals=naturals))
        case Operation("^", (below, Number(exponent))) if 0 < exponent <= 8:
            return reduce(multiply_polynomials, [polynomial(below, naturals=naturals)] * exponent, {(): 1})
        case Operation("-", (left, right)) if not naturals:
            return add_polynomials(polynomial(left, naturals=False), polynomial(right, naturals=False), -1)
        case Operation("neg", (inside,)):
            return add_polynomials({}, polynomial(inside, naturals=naturals), -1)
    return {((term_text(term), 1),): 1}


def add_polynomials(left: Polynomial, right: Polynomial, times: int = 1) -> Polynomial:
    found = dict(left)
    for monomial, factor in right.items():
        found[monomial] = found.get(monomial, 0) + times * factor
    return {monomial: factor for monomial, factor in found.items() if factor}


def multiply_polynomials(left: Polynomial, right: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for (one, a), (two, b) in product(left.items(), right.items()):
        powers = dict(one)
        for name, times in two:
            powers[name] = powers.get(name, 0) + times
        found = add_polynomials(found, {tuple(sorted(powers.items())): a * b})
    return found


def degree(form: Polynomial) -> int:
    return max((sum(times for _, times in monomial) for monomial in form), default=0)


def difference(relation: Relation, *, naturals: bool) -> Polynomial:
    """Left minus right; both sides are polynomials of their own before, so that naturals need no care."""
    return add_polynomials(
        polynomial(relation.left, naturals=naturals), polynomial(relation.right, naturals=naturals), -1
    )


def leaf_names(form: Polynomial) -> list[str]:
    return sorted({name for monomial in form for name, _ in monomial})


def linear_form(form: Polynomial) -> tuple[dict[str, int], int] | None:
    """Factors of the leaves and the constant of a polynomial of degree one."""
    if degree(form) > 1:
        return None
    return {mono[0][0]: factor for mono, factor in form.items() if mono}, form.get((), 0)
