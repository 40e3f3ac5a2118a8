"""Replay of a journal: each line is handed again to whoever wrote it, and compared byte for byte.

It stops at the first line that differs: what follows it was decided in another state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Write = Callable[[str], object]


class Difference(NamedTuple):
    """`line` counts from 1.  What follows it was decided in another state."""

    line: int
    recorded: str
    now: str


class JournalDiffers(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference)
        self.difference = difference


def replay_and_compare(
    lines: Sequence[str],
    begin: Callable[[str, Write], T],
    again: Mapping[str, Callable[[T, Mapping[str, Any]], object]],
    first: str | None = None,
) -> T:
    """Who wrote it, as after the last line; Differs at the first that is not written again byte for byte.

    `begin` writes the first line, and `again` has what to do for each word that a further one may have as its `what`.
    `first`: what it should begin with, if its own rules are not to be taken for the right ones."""
    written: list[str] = []
    if not lines:
        raise JournalDiffers(Difference(1, "", "a journal begins with its rules"))
    if first is not None:
        _compare(1, lines[0], first)
    with _readable(1, lines[0]):
        teller = begin(lines[0], written.append)
    _compare(1, lines[0], *written)
    for number, recorded in enumerate(lines[1:], start=2):
        written.clear()
        with _readable(number, recorded):
            fields = json.loads(recorded)
            again[fields["what"]](teller, fields)
        _compare(number, recorded, *written)
    return teller


def journal_differences(go: Callable[[], object]) -> list[Difference]:
    """Empty, or the first."""
    try:
        go()
    except JournalDiffers as found:
        return [found.difference]
    return []


@contextmanager
def _readable(number: int, recorded: str) -> Iterator[None]:
    """A line that speaks of what is not there was edited, or is of another version."""
    try:
        yield
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise JournalDiffers(Difference(number, recorded, f"{type(error).__name__}: {error}")) from error


def _compare(number: int, recorded: str, *now: str) -> None:
    if now != (recorded,):
        raise JournalDiffers(Difference(number, recorded, "".join(now)))
