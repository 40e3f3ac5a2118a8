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
        case Operation("field", (Leaf(name), first)):
            return call_function(name, [first, *arguments])
        case Leaf(name) if arguments and name in NAMED_FUNCTIONS:
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
