"""Small instances of a statement, to look for a counterexample."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from pipeline.tactics.text.goal import Hypothesis

Values = tuple[str, ...]
Instance = tuple[tuple[str, str], ...]  # (variable, value)
TYPE_VALUES: Values = ("Bool", "Nat", "Empty")
MOST_OF_ONE = 24
MOST_VARIABLES = 8
MOST_RANKED = 300
_NUMERAL = re.compile(r"(?<![\w.])\d{1,9}(?![\w.])")


def instances(variables: Sequence[Hypothesis], statement: str, most: int) -> list[Instance]:
    """Instances of the first variables, the simplest first; as far as values of their types are known."""
    numerals = tuple(dict.fromkeys(_NUMERAL.findall(statement)))[:6]
    front = variables[:MOST_VARIABLES]
    width = max(2, int(MOST_RANKED ** (1 / max(1, len(front)))))
    ranked = sorted(_ranked_instances(front, numerals, width), key=lambda each: each[0])
    return [instance for _, instance in ranked[:most]]


def _ranked_instances(variables: Sequence[Hypothesis], numerals: Values, width: int) -> Iterator[tuple[int, Instance]]:
    """Instances with their ranks: how far down their lists the values stand, of which the first `width` are used."""
    values = values_of_type(variables[0].type, numerals)[:width] if variables else ()
    if not values:
        yield 0, ()
        return
    first, *rest = variables
    mention = re.compile(rf"(?<![\w.']){re.escape(first.name)}(?![\w'])")
    for rank, value in enumerate(values):
        left = [Hypothesis(one.name, mention.sub(value, one.type)) for one in rest]
        for more, instance in _ranked_instances(left, numerals, width):
            yield rank + more, ((first.name, value), *instance)


def values_of_type(type_: str, numerals: Values = ()) -> Values:
    """Terms of a type, the simplest first; none when there are none, or none are known."""
    bare = type_.strip()
    if bare.startswith("(") and bare.endswith(")") and ")" not in bare[1:-1]:
        bare = bare[1:-1].strip()
    if bare.startswith("Type "):
        bare = "Type"
    if bare in _PLAIN:
        return _PLAIN[bare](numerals)
    if " → " in bare:
        return _function_values(bare, numerals)
    constructor, _, argument = bare.partition(" ")
    return _CONSTRUCTED[constructor](argument, numerals) if constructor in _CONSTRUCTED else ()


def _nat_values(numerals: Values) -> Values:
    near = [str(number) for each in numerals for number in (int(each), int(each) + 1, max(0, int(each) - 1))]
    return tuple(dict.fromkeys(["0", "1", "2", "3", *near, *map(str, range(4, MOST_OF_ONE))]))[:MOST_OF_ONE]


def _int_values(numerals: Values) -> Values:
    sizes = _nat_values(numerals)[1:]
    return ("0", *(f"({sign}{size})" for size in sizes for sign in ("", "-")))[:MOST_OF_ONE]


def _function_values(type_: str, numerals: Values) -> Values:
    source, _, target = type_.partition(" → ")
    same = ("fun x => x",) if source == target else ()
    compared = ("fun x y => x = y", "fun x y => x ≠ y") if target == f"{source} → Prop" else ()
    return (*compared, *same, *(f"fun _ => {each}" for each in values_of_type(target, numerals)[:4]))


def _list_values(item: str, numerals: Values) -> Values:
    values = values_of_type(item, numerals)[:3]
    longer = [f"[{', '.join(each)}]" for size in (1, 2, 3) for each in product(values, repeat=size)]
    return ("[]", *longer)[:MOST_OF_ONE]


def _option_values(item: str, numerals: Values) -> Values:
    return ("none", *(f"some ({each})" for each in values_of_type(item, numerals)[:3]))


def _fin_values(size: str, _: Values) -> Values:
    return tuple(map(str, range(min(int(size), 6)))) if size.isdigit() else ()


_PLAIN: dict[str, Callable[[Values], Values]] = {
    "Nat": _nat_values,
    "Int": _int_values,
    "Bool": lambda _: ("true", "false"),
    "Prop": lambda _: ("True", "False"),
    "Type": lambda _: TYPE_VALUES,
    "Unit": lambda _: ("()",),
}
_CONSTRUCTED: dict[str, Callable[[str, Values], Values]] = {
    "List": _list_values,
    "Option": _option_values,
    "Fin": _fin_values,
}
