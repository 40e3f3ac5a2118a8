"""A journal gone through once more: to see that all is decided as it was, to go on, to fold the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.core.retold import Difference, Differs, differences, retold
from pipeline.mcts.journal import AGAIN, Journalled
from pipeline.mcts.trace import Note, line


class Diverged(Exception):
    """The search no longer decides what the journal says it did."""


def replay(lines: Sequence[str], first: str | None = None) -> list[Difference]:
    """Where the journal is not what the search writes now, byte for byte: empty, or the first such line.

    `first`: the line that it should begin with, if its own rules are not to be taken for the right ones."""
    return differences(lambda: _gone_through(lines, lambda told: None, first))


def retraced(lines: Sequence[str]) -> tuple[list[Difference], list[str]]:
    """As `replay`, and the trace up to where the journal is another."""
    trace: list[str] = []
    return differences(lambda: _gone_through(lines, lambda told: trace.append(line(told)), None)), trace


def resumed(
    lines: Sequence[str], write: Callable[[str], object], note: Note = lambda told: None, first: str | None = None
) -> Journalled:
    """As if it had not been stopped after the last of the lines: what is `unanswered` then has to be tried again.

    New lines go to `write`; `note` hears of all iterations from the first."""
    try:
        journalled = _gone_through(lines, note, first)
    except Differs as found:
        raise Diverged(f"line {found.difference.line}: {found.difference.now} instead of what is recorded") from found
    journalled.write = write
    return journalled


def traced(lines: Sequence[str]) -> list[str]:
    """The trace that belongs to a journal."""
    found: list[str] = []
    resumed(lines, lambda text: None, lambda told: found.append(line(told)))
    return found


def _gone_through(lines: Sequence[str], note: Note, first: str | None) -> Journalled:
    return retold(lines, lambda told, write: Journalled(told, write, note), AGAIN, first)
