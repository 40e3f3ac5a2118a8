"""The `for:` of a step: YAML -> its values by columns, one row for each target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, NoReturn, Protocol

from pipeline.declared import checked_name
from pipeline.spec import Item
from pipeline.steps.model import Matrix


class _Value(Protocol):
    def plain(self) -> Any: ...


class _Number(NamedTuple):
    """A value of a range."""

    value: int

    def plain(self) -> int:
        return self.value


def matrix(item: Item, what: str, most: int) -> Matrix:
    what = f"{what}: for"
    return _rows(item, what, most) if item.is_list else _crossed(item, what, most)


def _crossed(item: Item, what: str, most: int) -> Matrix:
    """Every combination of the values of some names; the last one changes fastest."""
    values = {checked_name(n, v, what): _values(v, f"{what}: {n}", most) for n, v in item.pairs(what)}
    if (size := prod(map(len, values.values()))) > most:
        _too_many(item, f"{what} makes {size} targets", most)
    crossed = dict(zip(values, zip(*product(*values.values()), strict=True), strict=True))
    columns = {name: [text for text, _ in column] for name, column in crossed.items()}
    return Matrix(columns, size, _labels(columns), lambda name, i: crossed[name][i][1].plain())


def _rows(item: Item, what: str, most: int) -> Matrix:
    """A list of rows, all with the same names."""
    columns = _alike(item, what) or _looked_at_closely(item, what)
    if not columns:
        item.wrong(f"{what}: the list is empty; give it rows such as - {{a: 1, b: x}}")
    if (size := len(item.node.value)) > most:
        _too_many(item, f"{what} makes {size} targets", most)
    return Matrix(columns, size, _labels(columns), lambda name, i: dict(item.entry(i).pairs(what))[name].plain())


def _alike(item: Item, what: str) -> dict[str, list[str]] | None:
    """The columns of rows that are all written alike, as most are."""
    if not item.node.value or not item.entry(0).is_map:
        return None
    names = [checked_name(name, item.entry(0), what) for name, _ in item.entry(0).pairs(what)]
    columns = item.columns(names)
    return dict(zip(names, columns, strict=True)) if columns else None


def _looked_at_closely(item: Item, what: str) -> dict[str, list[str]]:
    rows: list[dict[str, str]] = []
    names: list[str] = []
    for entry in item.items(what):
        row = dict(entry.pairs(what))
        if not rows:
            names = [checked_name(name, entry, what) for name in row]
        elif row.keys() != {*names}:
            entry.wrong(f"{what}: this row has {', '.join(row)}; the first one has {', '.join(names)}")
        rows.append({name: value.text(f"{what}: {name}") for name, value in row.items()})
    return {name: [row[name] for row in rows] for name in names}


def _values(item: Item, what: str, most: int) -> list[tuple[str, _Value]]:
    """A list of values, or {range: N}, {range: [from, to]}, {range: [from, to, step]}."""
    if item.is_map:
        return [(str(i), _Number(i)) for i in _range(item.fields(what, ("range",), ("range",))["range"], what, most)]
    values: list[tuple[str, _Value]] = [(v.text(what), v) for v in item.items(what)]
    if not values:
        item.wrong(f"{what}: the list is empty")
    return values


def _range(item: Item, what: str, most: int) -> range:
    numbers = [v.plain() for v in item.items(what)] if item.is_list else [item.plain()]
    if not 1 <= len(numbers) <= 3 or not all(type(n) is int for n in numbers) or (len(numbers) == 3 and not numbers[2]):
        item.wrong(f"{what}: range takes N, [from, to] or [from, to, step], whole numbers; `to` is left out")
    values = range(*numbers)
    if not values:
        item.wrong(f"{what}: this range has no values")
    if (count := (values[-1] - values[0]) // values.step + 1) > most:
        _too_many(item, f"{what}: this range makes {count} targets", most)
    return values


def _labels(columns: Mapping[str, Sequence[str]]) -> Sequence[str]:
    words = [[*map({value: _word(value) for value in {*column}}.__getitem__, column)] for column in columns.values()]
    return [*map(".".join, zip(*words, strict=True))]


def _word(value: str) -> str:
    return value if value.isalnum() else re.sub(r"[^\w.+-]+", "-", value) or "-"


def _too_many(item: Item, what: str, most: int) -> NoReturn:
    item.wrong(f"{what}, more than the {most} allowed; if that is meant, raise `max_targets:`")
