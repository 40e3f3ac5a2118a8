"""Arithmetic as Lean prints it, read into terms that can be computed with.

A term that is not arithmetic (an application, a coercion, a field) is a leaf with its printed text as its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
        if self.look() == "-":
            self.take()
            return negate(self.term(NEGATION))
        return self.application()

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


def negate(term: Term) -> Term:
    return Number(-term.value) if isinstance(term, Number) else Operation("neg", (term,))


NAMED_FUNCTIONS = {"Nat.gcd": "gcd", "Int.gcd": "gcd", "gcd": "gcd", "Nat.lcm": "lcm", "lcm": "lcm"}


def apply_term(head: Term, arguments: list[Term]) -> Term:
    """`a.gcd b`, `(x + 1).gcd b` and `Nat.gcd a b` are operations; any other application is a leaf."""
    match head:
        case Operation("field", (Leaf(name), first)):
            return call_function(name, [first, *arguments])
        case Leaf(name) if name in NAMED_FUNCTIONS:
            return call_function(name, arguments)
        case Leaf(name) if arguments and name.rpartition(".")[2] in NAMED_FUNCTIONS:
            owner, _, field = name.rpartition(".")
            return call_function(field, [Leaf(owner), *arguments])
    return Leaf(" ".join(term_text(one, tight=True) for one in [head, *arguments])) if arguments else head


def call_function(name: str, arguments: list[Term]) -> Term:
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
    match term:
        case Number(value):
            return str(value) if value >= 0 else f"({value})"
        case Leaf(name):
            return f"({name})" if tight and " " in name else name
        case Operation(sign, arguments):
            return f"({operation_text(sign, arguments)})" if tight else operation_text(sign, arguments)


def operation_text(sign: str, arguments: tuple[Term, ...]) -> str:
    if sign == "neg":
        return f"-{term_text(arguments[0], tight=True)}"
    if sign in ("gcd", "lcm"):
        return " ".join([f"Nat.{sign}", *(term_text(one, tight=True) for one in arguments)])
    return f" {sign} ".join(operand_text(one) for one in arguments)


def operand_text(term: Term) -> str:
    return term_text(term, tight=isinstance(term, Operation))


def leaves(term: Term) -> list[str]:
    """Names of the leaves, each once, in the order of first sight."""
    if isinstance(term, Leaf):
        return [term.name]
    if isinstance(term, Number):
        return []
    return list(dict.fromkeys(name for one in term.arguments for name in leaves(one)))


def subterms(term: Term) -> list[Term]:
    inner = [] if not isinstance(term, Operation) else [sub for one in term.arguments for sub in subterms(one)]
    return list(dict.fromkeys([term, *inner]))
