"""A bank of goals as text, a row a line: the goals it has, and what is wrong with the other rows."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from pipeline.goals import rows
from pipeline.goals.model import Bank, Goal, Refusal

_COMMENTS = (b"#", b"//")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_bank(text: bytes) -> Bank:
    """Every line is a goal, a refusal, or blank, or a comment (# or //)."""
    if text.startswith(_UTF16):
        return Bank((), (Refusal(1, "", "it is UTF-16; save the bank as UTF-8"),))
    goals: dict[str, Goal] = {}
    refused = []
    for line, row in _rows(text.removeprefix(codecs.BOM_UTF8)):
        read = _read(line, row, goals)
        if isinstance(read, Goal):
            goals[read.id] = read
        else:
            refused.append(read)
    return Bank(tuple(goals.values()), tuple(refused))


def told(file: str, refusal: Refusal) -> str:
    """In a line, as it is shown."""
    name = f"{refusal.id}: " if refusal.id else ""
    return f"{file}:{refusal.line}: {name}{refusal.why}"


def _rows(text: bytes) -> Iterator[tuple[int, bytes]]:
    # only "\n" ends a row: other line ends of Unicode may stand in a text
    for line, whole in enumerate(text.split(b"\n"), 1):
        row = whole.strip(b" \t\r")
        if row and not row.startswith(_COMMENTS):
            yield line, row


def _read(line: int, row: bytes, above: dict[str, Goal]) -> Goal | Refusal:
    name = ""
    try:
        found = rows.parse(row)
        name = rows.name_of(found)
        goal = rows.goal(found, line)
    except rows.Wrong as wrong:
        return Refusal(line, name, str(wrong))
    if goal.id in above:
        return Refusal(line, goal.id, f"line {above[goal.id].line} has this id; give each goal its own")
    return goal
