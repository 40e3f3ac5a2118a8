"""Journals of policies that are asked and told: write, resume, replay.

A policy decides what is tried next. It waits for nobody, asks no clock and throws no dice: loads, times and outcomes
come in as arguments, so the same questions have the same answers. Its journal is therefore enough to go on from.

The way of a trial:   asked -> unanswered -> told, or given up by the policy
The way of a journal: begin, its first line, has all that the policy starts from; each further line is a question with
                      its answer, as JSON with sorted keys; a question that changed nothing has no line
resume                asks all lines again, each of which must come out byte for byte; new lines follow them
journal_differences   does the same to say which line would be another one now; after it all was decided in another
                      state, so it is only the first"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pipeline.errors import cut_text

Fields = Mapping[str, Any]
Write = Callable[[str], object]
T_co = TypeVar("T_co", covariant=True)
O_contra = TypeVar("O_contra", contravariant=True)


class Policy(Protocol[T_co, O_contra]):
    """`version` grows with whatever changes what it will do next.  `ask` may be handed how much room there is."""

    @property
    def version(self) -> int: ...
    @property
    def is_finished(self) -> bool: ...
    @property
    def unanswered(self) -> Sequence[T_co]: ...
    @property
    def ask(self) -> Callable[..., T_co | None]: ...
    def tell(self, outcome: O_contra) -> object: ...


P = TypeVar("P", bound=Policy[Any, Any])


class Journal(Generic[P]):
    """A policy whose questions are written down.  A subclass hands each on, and `record`s it with its answer."""

    def __init__(self, policy: P, write: Write, first: str) -> None:
        self.policy, self.write = policy, write
        self.count, self._version = 1, policy.version
        write(first)

    def record(self, what: str, /, **fields: Any) -> None:
        if self.policy.version != self._version:
            self._version = self.policy.version
            self.count += 1
            self.write(journal_line(self.count, what, **fields))


def journal_line(number: int, what: str, /, **fields: Any) -> str:
    """Numbered from 1, so that a line that is missing shows."""
    return json.dumps({"n": number, "what": what, **fields}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def split_lines(content: bytes) -> list[str]:
    """Only a line feed ends one: other line ends of Unicode may stand in a tactic.  Damage reads as another text."""
    return content.decode(errors="replace").removesuffix("\n").split("\n") if content else []


J = TypeVar("J", bound=Journal[Any])
# What a policy raises when it is asked with values of another form or out of range.
WRONG_DATA = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JournalForm(NamedTuple, Generic[J]):
    """The form of the journals of one kind of policy.

    begin: a journal from the fields of a first line
    steps: for each word that a further line may have as its `what`, how its question is asked again"""

    version: int
    begin: Callable[[Fields, Write], J]
    steps: Mapping[str, Callable[[J, Fields], object]]


class JournalDifference(NamedTuple):
    """`line` counts from 1."""

    line: int
    recorded: str
    now: str


class JournalDiffers(Exception):
    """Other code wrote the journal, or it was edited."""

    def __init__(self, line: int, recorded: str, now: str) -> None:
        super().__init__(f"line {line}: {now} instead of what is recorded")
        self.difference = JournalDifference(line, recorded, now)


def resume(form: JournalForm[J], lines: Sequence[str], write: Write, first: str | None = None) -> J:
    """The journal as if it had never been stopped after `lines`: what is unanswered then is to be tried again.

    `first`: the line that it must begin with, if its own rules are not to be taken for the right ones.
    Raises JournalDiffers at the first line that is not written again byte for byte."""
    journal: J | None = None
    again: list[str] = []
    for number, recorded in enumerate(lines, start=1):
        if number == 1 and first is not None and recorded != first:
            raise JournalDiffers(1, recorded, first)
        try:
            fields = json.loads(recorded)
            if journal is None:
                journal = _begin(form, fields, again.append)
            else:
                form.steps[fields["what"]](journal, fields)
        except WRONG_DATA as error:  # edited, or of another version
            raise JournalDiffers(number, recorded, f"{type(error).__name__}: {error}") from error
        if again != [recorded]:
            raise JournalDiffers(number, recorded, "".join(again))
        again.clear()
    if journal is None:
        raise JournalDiffers(1, "", "a journal begins with its rules")
    journal.write = write
    return journal


def _begin(form: JournalForm[J], fields: Fields, write: Write) -> J:
    if fields["version"] != form.version:
        raise ValueError(f"a journal of version {fields['version']}; this is {form.version}")
    return form.begin(fields, write)


def journal_differences(
    form: JournalForm[J], lines: Sequence[str], first: str | None = None
) -> list[JournalDifference]:
    """The first line that is not what the policy writes now, if there is one."""
    try:
        resume(form, lines, lambda line: None, first)
    except JournalDiffers as error:
        return [error.difference]
    return []


def difference_lines(differences: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each difference that a replay found in the journal at its `path`."""
    return [
        f"{each['path']}:{each['line']}: recorded {cut_text(each['recorded'])}, decided again {cut_text(each['now'])}"
        for each in differences
    ]
