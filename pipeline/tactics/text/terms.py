"""Arithmetic as Lean prints it, read into terms, and these computed: values and polynomials.

A term that is not arithmetic (an application, a coercion, a field) is a leaf with its printed text as its name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import add, eq, ge, gt, le, lt, mul, ne, neg, sub
from typing import TypeVar

from pipeline.tactics.text import syntax

TOKEN = re.compile(r"\s*(\d+(?![\w.])|[^\W\d][\w.'!?✝₀-₉]*|\.[^\W\d]\w*|[-+*/%^()↑]|\S)")
BINARY = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "^": 4}
NEGATION = 3
LARGEST_VALUE = 10**60  # beyond this nothing is computed


@dataclass(frozen=True)
class Number:
    value: int


@dataclass(frozen=True)
class Leaf:
    name: str


@dataclass(frozen=True)
class Operation:
    """`sign` is one of + - * / % ^ gcd lcm; `neg` has one argument."""

    sign: str
    arguments: tuple[Term, ...]


Term = Number | Leaf | Operation


class NotArithmetic(Exception):
    """The text has something that is not read here."""


@dataclass(frozen=True)
class Relation:
    """`sign` is one of syntax.RELATIONS; `holds` is False under a ¬."""

    sign: str
    left: Term
    right: Term
    holds: bool = True


class TermParser:
    """Precedence climbing over the tokens."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = TOKEN.findall(text)
        self.place = 0

    def look(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def term(self, floor: int = 0) -> Term:
        left = self.signed()
        while (level := BINARY.get(self.look(), -1)) > floor:
            sign = self.take()
            left = Operation(sign, (left, self.term(level - (sign == "^"))))
        return left

    def signed(self) -> Term:
        if not self.take_if("-"):
            return self.application()
        term = self.term(NEGATION)
        return Number(-term.value) if isinstance(term, Number) else Operation("neg", (term,))

    def application(self) -> Term:
        head, arguments = self.leaf(), list[Term]()
        while self.look() and (self.look()[0] not in "+-*/%^)" or self.look() == "↑"):
            if self.look()[0] == ".":
                head, arguments = Operation("field", (Leaf(self.take()[1:]), apply_term(head, arguments))), []
            else:
                arguments.append(self.leaf())
        return apply_term(head, arguments)

    def leaf(self) -> Term:
        token = self.take() if self.look() else ""
        if token == "(":
            inside = self.term()
            if self.take_if(")"):
                return inside
        if token == "↑":
            return Leaf("↑" + term_text(self.leaf(), tight=True))
        if token.isdigit():
            return Number(int(token))
        if token[:1].isalpha() or token[:1] == "_":
            return Leaf(token)
        raise NotArithmetic(token)

    def take_if(self, token: str) -> bool:
        found = self.look() == token
        self.place += found
        return found


NAMED_FUNCTIONS = {"Nat.gcd": "gcd", "Int.gcd": "gcd", "gcd": "gcd", "Nat.lcm": "lcm", "lcm": "lcm"}


def apply_term(head: Term, arguments: list[Term]) -> Term:
    """`a.gcd b`, `(x + 1).gcd b` and `Nat.gcd a b` are operations; any other application is a leaf."""
    match head:
        case Operation("field", (Leaf(name), owner)):
            arguments = [owner, *arguments]
        case Leaf(name) if arguments and name in NAMED_FUNCTIONS:
            pass
        case Leaf(path) if arguments and path.rpartition(".")[2] in NAMED_FUNCTIONS:
            variable, _, name = path.rpartition(".")
            arguments = [Leaf(variable), *arguments]
        case _:
            return Leaf(" ".join(term_text(one, tight=True) for one in [head, *arguments])) if arguments else head
    if name in NAMED_FUNCTIONS and len(arguments) == 2:
        return Operation(NAMED_FUNCTIONS[name], tuple(arguments))
    first, *rest = (term_text(one, tight=True) for one in arguments)
    return Leaf(" ".join([f"{first}.{name}", *rest]))


def read_term(text: str) -> Term | None:
    reader = TermParser(text)
    try:
        term = reader.term()
    except NotArithmetic:
        return None
    return term if reader.place == len(reader.tokens) else None


def read_relation(text: str) -> Relation | None:
    """A proposition that relates two terms, or says that they are not related."""
    inside = syntax.negated_part(text)
    sign = syntax.connective(inside or text)
    if sign not in syntax.RELATIONS:
        return None
    sides = [read_term(side) for side in syntax.split_at(inside or text, sign)]
    if len(sides) != 2 or sides[0] is None or sides[1] is None:
        return None
    return Relation(sign, sides[0], sides[1], holds=not inside)


def term_text(term: Term, *, tight: bool = False) -> str:
    """Text of a term as Lean reads it again; `tight`: as an argument."""
    if isinstance(term, Number):
        return str(term.value) if term.value >= 0 else f"({term.value})"
    if isinstance(term, Leaf):
        return f"({term.name})" if tight and " " in term.name else term.name
    if term.sign == "neg":
        text = f"-{term_text(term.arguments[0], tight=True)}"
    elif term.sign in ("gcd", "lcm"):
        text = " ".join([f"Nat.{term.sign}", *(term_text(one, tight=True) for one in term.arguments)])
    else:
        text = f" {term.sign} ".join(term_text(one, tight=isinstance(one, Operation)) for one in term.arguments)
    return f"({text})" if tight else text


def leaves(term: Term) -> list[str]:
    """Names of the leaves, each once, in the order of first sight."""
    return [one.name for one in subterms(term) if isinstance(one, Leaf)]


def subterms(term: Term) -> list[Term]:
    inner = [sub for one in term.arguments for sub in subterms(one)] if isinstance(term, Operation) else []
    return list(dict.fromkeys([term, *inner]))


Monomial = tuple[tuple[str, int], ...]  # leaves with their powers, sorted
Polynomial = dict[Monomial, int]
N = TypeVar("N", int, Fraction)


class NoValue(Exception):
    """No value is known for a leaf, or it is too large."""


def evaluate(term: Term, known: Mapping[str, int], kind: str = "Nat") -> int:
    """Evaluate as Lean does: subtraction of naturals ends at 0, division by 0 is 0."""
    if isinstance(term, Number):
        return term.value
    if isinstance(term, Leaf):
        if term.name not in known:
            raise NoValue(term.name)
        return known[term.name]
    numbers = [evaluate(one, known, kind) for one in term.arguments]
    found = max(0, OPERATIONS[term.sign](*numbers)) if kind == "Nat" else OPERATIONS[term.sign](*numbers)
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
    "+": add,
    "-": sub,
    "*": mul,
    "/": lambda a, b: (a // b if b > 0 else -(a // -b)) if b else 0,
    "%": lambda a, b: a % abs(b) if b else a,
    "^": power_value,
    "gcd": math.gcd,
    "lcm": math.lcm,
    "neg": neg,
}


def divides(a: int, b: int) -> bool:
    return b % a == 0 if a else b == 0


COMPARISONS = {"=": eq, "≠": ne, "≤": le, "<": lt, "≥": ge, ">": gt, "∣": divides}


def is_true(relation: Relation, known: Mapping[str, int]) -> bool:
    """True if both sides have a value, and the relation holds between those."""
    try:
        left, right = evaluate(relation.left, known), evaluate(relation.right, known)
    except NoValue:
        return False
    return bool(COMPARISONS[relation.sign](left, right)) == relation.holds


def polynomial(term: Term, kind: str = "Nat") -> Polynomial:
    """The polynomial of a term, multiplied out; any other term than a sum or product is a leaf by its text."""
    match term:
        case Number(number):
            return {(): number} if number else {}
        case Operation("+", (left, right)):
            return add_polynomials(polynomial(left, kind), polynomial(right, kind))
        case Operation("*", (left, right)):
            return multiply_polynomials(polynomial(left, kind), polynomial(right, kind))
        case Operation("^", (below, Number(exponent))) if 0 < exponent <= 8:
            return reduce(multiply_polynomials, [polynomial(below, kind)] * exponent, {(): 1})
        case Operation("-", (left, right)) if kind != "Nat":
            return add_polynomials(polynomial(left, kind), polynomial(right, kind), -1)
        case Operation("neg", (inside,)):
            return add_polynomials({}, polynomial(inside, kind), -1)
    return {((term_text(term), 1),): 1}


def add_polynomials(left: dict[Monomial, N], right: dict[Monomial, N], times: int | N = 1) -> dict[Monomial, N]:
    found = dict(left)
    for monomial, factor in right.items():
        found[monomial] = found.get(monomial, 0) + times * factor
    return {monomial: factor for monomial, factor in found.items() if factor}


def multiply_polynomials(left: Polynomial, right: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for (one, a), (two, b) in product(left.items(), right.items()):
        found = add_polynomials(found, {multiply_monomials(one, two): a * b})
    return found


def multiply_monomials(one: Monomial, other: Monomial, sign: int = 1) -> Monomial:
    """Product, or with sign -1 the quotient, in which powers may be negative."""
    powers = dict(one)
    for name, times in other:
        powers[name] = powers.get(name, 0) + sign * times
    return tuple(sorted((name, times) for name, times in powers.items() if times))


def polynomial_text(form: Polynomial) -> str:
    """Text of a polynomial. Subtracted terms stand at the end, so that a natural is cut off as late as may be."""
    ordered = sorted(form.items(), key=lambda item: item[1] < 0)
    parts = [f"{'-' if factor < 0 else '+'} {monomial_text(abs(factor), mono)}" for mono, factor in ordered]
    return " ".join(parts).removeprefix("+ ") or "0"


def monomial_text(factor: int, monomial: Monomial) -> str:
    tight = [(f"({name})" if " " in name else name, times) for name, times in monomial]
    powers = [name if times == 1 else f"{name} ^ {times}" for name, times in tight]
    return " * ".join([str(factor), *powers] if factor != 1 or not powers else powers)


def degree(form: Polynomial) -> int:
    return max((sum(times for _, times in monomial) for monomial in form), default=0)


def difference(relation: Relation, kind: str) -> Polynomial:
    """Left minus right; both sides are polynomials of their own before, so that naturals need no care."""
    return add_polynomials(polynomial(relation.left, kind), polynomial(relation.right, kind), -1)


def leaf_names(form: Polynomial) -> list[str]:
    return sorted({name for monomial in form for name, _ in monomial})


def linear_form(term: Term, kind: str = "Nat") -> tuple[dict[str, int], int] | None:
    """Factors of the leaves and the constant of a term whose polynomial is of degree one."""
    form = polynomial(term, kind)
    if degree(form) > 1:
        return None
    return {mono[0][0]: factor for mono, factor in form.items() if mono}, form.get((), 0)


def floor_root(number: int, degree: int) -> int:
    """The largest whole number whose power is not above `number`."""
    low, high = 0, 1
    while high**degree <= number:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= number else (low, middle)
    return low
