"""A fault that validation found: where, what, and what to do about it; and the checks that look for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Problem(NamedTuple):
    """`path`: a file, a folder, a ref, or a field of the manifest."""

    check: str
    path: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.remedy}"


class Check(NamedTuple):
    """What was looked at, how many of them, and what is wrong."""

    name: str
    looked_at: int
    problems: tuple[Problem, ...]


# A path or field, what is wrong with it, what to do.
Fault = tuple[str, str, str]


def check(name: str, looked_at: int, faults: Iterable[Fault]) -> Check:
    return Check(name, looked_at, tuple(Problem(name, *fault) for fault in faults))


def unequal(rows: Iterable[tuple[str, object, object, str]], remedy: str) -> Iterator[Fault]:
    """Of (where, found, expected, what the expected one is)."""
    for where, found, expected, what in rows:
        if found != expected:
            yield where, f"is {shown(found)}, {what} {shown(expected)}", remedy


def shown(value: object) -> str:
    text = "missing" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
