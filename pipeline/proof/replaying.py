"""A journal gone through once more, to see that the rules decide as they did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pipeline.proof.journal import AGAIN, begun, first_line
from pipeline.proof.trials import Rules


class Difference(NamedTuple):
    """`line` counts from 1."""

    line: int
    recorded: str
    now: str


def replay(lines: Sequence[str], rules: Rules | None = None) -> list[Difference]:
    """Where the journal is not what these rules write, byte for byte: empty, or the first such line.  What follows it
    was decided in another state.  Without `rules`, those that the journal begins with."""
    try:
        _go_through(lines, rules)
    except _Differs as found:
        return [found.difference]
    return []


class _Differs(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference)
        self.difference = difference


def _go_through(lines: Sequence[str], rules: Rules | None) -> None:
    written: list[str] = []
    if not lines:
        raise _Differs(Difference(1, "", "a journal begins with its rules"))
    if rules is not None:
        _compare(1, lines[0], first_line(rules))
    with _readable(1, lines[0]):
        journalled = begun(json.loads(lines[0]), written.append)
    _compare(1, lines[0], written[-1])
    for number, recorded in enumerate(lines[1:], start=2):
        written.clear()
        with _readable(number, recorded):
            fields = json.loads(recorded)
            AGAIN[fields["what"]](journalled, fields)
        _compare(number, recorded, *written)


@contextmanager
def _readable(number: int, recorded: str) -> Iterator[None]:
    """A line that speaks of what is not there was edited, or is of another version."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise _Differs(Difference(number, recorded, f"{type(error).__name__}: {error}")) from error


def _compare(number: int, recorded: str, *now: str) -> None:
    if now != (recorded,):
        raise _Differs(Difference(number, recorded, "".join(now)))
