"""A journal gone through once more: to see that all is decided as it was, to go on, to fold the trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pipeline.mcts.journal import AGAIN, Journalled
from pipeline.mcts.trace import Note, line


class Difference(NamedTuple):
    """`line` counts from 1."""

    line: int
    recorded: str
    now: str


class Diverged(Exception):
    """The search no longer decides what the journal says it did."""


def replay(lines: Sequence[str], first: str | None = None) -> list[Difference]:
    """Where the journal is not what the search writes now, byte for byte: empty, or the first such line.

    `first`: the line that it should begin with, if its own rules are not to be taken for the right ones."""
    try:
        _gone_through(lines, lambda told: None, first)
    except _Differs as found:
        return [found.difference]
    return []


def resumed(
    lines: Sequence[str], write: Callable[[str], object], note: Note = lambda told: None, first: str | None = None
) -> Journalled:
    """As if it had not been stopped after the last of the lines: what is `unanswered` then has to be tried again.

    New lines go to `write`; `note` hears of all iterations from the first."""
    try:
        journalled = _gone_through(lines, note, first)
    except _Differs as found:
        raise Diverged(f"line {found.difference.line}: {found.difference.now} instead of what is recorded") from found
    journalled.write = write
    return journalled


def traced(lines: Sequence[str]) -> list[str]:
    """The trace that belongs to a journal."""
    found: list[str] = []
    resumed(lines, lambda text: None, lambda told: found.append(line(told)))
    return found


class _Differs(Exception):
    def __init__(self, difference: Difference) -> None:
        super().__init__(difference)
        self.difference = difference


def _gone_through(lines: Sequence[str], note: Note, first: str | None) -> Journalled:
    if not lines:
        raise _Differs(Difference(1, "", "a journal begins with its rules"))
    if first not in (None, lines[0]):
        raise _Differs(Difference(1, lines[0], str(first)))
    written: list[str] = []
    journalled = Journalled(lines[0], written.append, note)
    for number, recorded in enumerate(lines[1:], start=2):
        written.clear()
        try:
            fields = json.loads(recorded)
            AGAIN[fields["what"]](journalled, fields)
        except (KeyError, TypeError, ValueError) as error:  # it speaks of what is not there: it was edited
            raise _Differs(Difference(number, recorded, f"{type(error).__name__}: {error}")) from error
        if written != [recorded]:
            raise _Differs(Difference(number, recorded, "".join(written)))
    return journalled
