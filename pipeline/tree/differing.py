"""Where two files differ first: a key of two records, else a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

_NOTHING = object()


class Place(NamedTuple):
    """`where`: such as `decisions.d1.n0.i1.why` or `line 3`; then what stands there in each of the two."""

    where: str
    old: str
    new: str


def first_difference(old: bytes, new: bytes) -> Place | None:
    if old == new:
        return None
    sides = _record(old), _record(new)
    in_records = None if _NOTHING in sides else _in_values("", *sides)
    return in_records or _in_lines(old, new)


def _record(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        return _NOTHING
    return found if isinstance(found, Mapping) else _NOTHING


def _in_values(where: str, old: Any, new: Any) -> Place | None:
    if inner := [*_inner(where, old, new)]:
        return next((found for each in inner if (found := _in_values(*each))), None)
    told = _told(old), _told(new)  # 1, 1.0 and true are equal, but not the same
    return Place(where, *told) if told[0] != told[1] else None


def _inner(where: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield f"{where}.{name}" if where else name, old.get(name, _NOTHING), new.get(name, _NOTHING)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for n, (a, b) in enumerate(zip(old, new, strict=True)):
            yield f"{where}[{n}]", a, b


def _told(value: Any) -> str:
    if value is _NOTHING:
        return "missing"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _in_lines(old: bytes, new: bytes) -> Place:
    """The end of a line belongs to it."""
    lines = enumerate(zip_longest(old.splitlines(True), new.splitlines(True), fillvalue=None), 1)
    number, (a, b) = next((number, pair) for number, pair in lines if pair[0] != pair[1])
    return Place(f"line {number}", *("missing" if line is None else ascii(line)[2:-1] for line in (a, b)))
