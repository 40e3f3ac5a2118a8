"""A goal as Lean prints it, taken apart: its hypotheses, its variables and its target.

Hypotheses without a name that a tactic could use get one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice

from pipeline.tactics.text import syntax

TYPES = ("Nat", "Int", "Bool", "Prop", "String", "Char", "Type", "Sort", "Rat", "Unit")
TYPE_MAKERS = ("List", "Option", "Fin", "Array", "Prod", "Sum", "Subtype", "BitVec", "Type", "Sort", "Vector")
INACCESSIBLE = "✝"


@dataclass(frozen=True)
class Hypothesis:
    """`name : type`, or `name : type := value`."""

    name: str
    type: str
    value: str = ""

    @property
    def is_accessible(self) -> bool:
        """True if a tactic can speak of it."""
        return INACCESSIBLE not in self.name and "[" not in self.name


@dataclass(frozen=True)
class PrintedGoal:
    """One goal."""

    hypotheses: tuple[Hypothesis, ...]
    target: str

    @cached_property
    def types(self) -> dict[str, str]:
        return {one.name: one.type for one in self.hypotheses}

    @cached_property
    def facts(self) -> tuple[Hypothesis, ...]:
        """Hypotheses that say something, by a name that can be used."""
        return tuple(one for one in self.hypotheses if one.is_accessible and is_proposition(one.type, self.types))

    @cached_property
    def variables(self) -> tuple[Hypothesis, ...]:
        """Variables by a name that can be used; their types are not among them."""
        named = (one for one in self.hypotheses if one.is_accessible and one not in self.facts)
        return tuple(one for one in named if not is_universe(one.type))

    def mentions(self, name: str) -> bool:
        """True if a fact or the target speaks of it."""
        return syntax.mentions(name, self.propositions)

    def of_type(self, *names: str) -> list[str]:
        """The variables of these types which the goal mentions."""
        return [one.name for one in self.variables if one.type in names and self.mentions(one.name)]

    @cached_property
    def propositions(self) -> str:
        """Facts and target in one text."""
        return "\n".join([*(one.type for one in self.facts), self.target])

    @cached_property
    def inaccessible(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.hypotheses if INACCESSIBLE in one.name)

    @cached_property
    def numerals(self) -> list[int]:
        """The numbers that stand by themselves (not the 1 of x1 or x.1), each once, in order of size."""
        digits = re.findall(r"(?<![\w.✝'])\d+(?![\w.])", self.propositions)
        return sorted({int(one) for one in digits if len(one) <= 40})

    @cached_property
    def connective(self) -> str:
        return syntax.connective(self.target)

    @cached_property
    def text(self) -> str:
        lines = [f"{one.name} : {one.type}" + (f" := {one.value}" if one.value else "") for one in self.hypotheses]
        return "\n".join([*lines, f"⊢ {self.target}"])

    def fresh(self, stem: str, wanted: int = 1) -> list[str]:
        """Names that nothing here has."""
        return [*islice(self.free_names(stem), wanted)]

    def free_names(self, stem: str) -> Iterator[str]:
        names = (f"{stem}{number or ''}" for number in count())
        return (name for name in names if not syntax.mentions(name, self.text))


def read_goal(printed: str) -> PrintedGoal:
    """A goal from what Lean prints; what does not look like one is a target without hypotheses."""
    target = ""
    hypotheses: list[Hypothesis] = []
    for line in logical_lines(printed):
        if line.startswith("⊢"):
            target = line.removeprefix("⊢").strip()
        elif hypotheses or not line.startswith("case "):  # the tag that Lean gave it
            names, _, rest = line.partition(" : ")  # `a b : Nat` is two; `n : Nat := 5` has a value
            end = next((at for at, _ in syntax.outer_characters(rest) if rest.startswith(":=", at)), len(rest))
            stated = rest[:end].strip(), rest[end + 2 :].strip()
            hypotheses += [Hypothesis(name, *stated) for name in re.findall(r"«[^»]*»\S*|\S+", names) if rest]
    return PrintedGoal(tuple(hypotheses), target or ("" if hypotheses else printed.strip()))


def logical_lines(printed: str) -> list[str]:
    """Lines of a goal, each with those that are indented and go on from it."""
    lines: list[str] = []
    for line in printed.splitlines():
        if line[:1].isspace() and lines:
            lines[-1] += " " + line.strip()
        elif line.strip():
            lines.append(line.rstrip())
    return lines


def is_universe(kind: str) -> bool:
    return re.match(r"^(Type|Sort)\b", kind) is not None


def is_proposition(kind: str, types: dict[str, str]) -> bool:
    """True if a hypothesis of this type is a fact, as far as its looks tell."""
    kind = syntax.without_brackets(kind)
    sign = syntax.connective(kind)
    if sign == "→":
        return is_proposition(syntax.split_at(kind, "→")[-1], types)
    if sign == "∀":
        return is_proposition(syntax.bound_variables(kind)[1], types)
    if sign or kind in ("True", "False"):
        return True
    head = kind.split(" ", maxsplit=1)[0]
    if head in types:  # a variable: of type Prop, or a predicate with its arguments
        return result_type(types[head]) == "Prop"
    if kind in TYPES or head in TYPE_MAKERS or "×" in kind or "⊕" in kind or is_universe(kind):
        return False
    return not re.fullmatch(r"[α-ωA-Z][\w₀-₉']*", kind)


def result_type(kind: str) -> str:
    """Result type of a function type."""
    return syntax.split_at(kind, "→")[-1]


def new_names(goal: PrintedGoal) -> list[str]:
    """New names, one for each hypothesis without a name, as `rename_i` wants them; induction hypotheses keep theirs."""
    found: list[str] = []
    for hidden in goal.inaccessible:
        letters = re.sub(r"[^\w]|\d", "", hidden.split(INACCESSIBLE, maxsplit=1)[0])
        stem = "ih" if "ih" in letters else letters or "v"
        found.append(next(name for name in goal.free_names(stem) if name not in found))
    return found
