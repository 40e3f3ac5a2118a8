"""Which rows of a bank do not count, and why: malformed, refused by Lean, or there twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.goals.model import Refusal

Record = Mapping[str, Any]

REFUSED = "refused"  # in the file of a goal: why it is none; and the status of its searches


def refusals(rows: Record, goals: Mapping[str, Record]) -> list[Refusal]:
    """By line.  `rows` as in rows.json, `goals` as in goals/GOAL.json; of equal statements the first row counts."""
    lines: Mapping[str, int] = rows["lines"]
    found, above = [Refusal(**row) for row in rows["refused"]], dict[str, str]()
    for name in sorted(goals, key=lines.__getitem__):
        if why := goals[name].get(REFUSED):
            found.append(Refusal(lines[name], name, why))
        elif (other := above.setdefault(goals[name]["key"], name)) != name:
            why = f"it is the statement of line {lines[other]} ({other}); drop one of them"
            found.append(Refusal(lines[name], name, why))
    return sorted(found, key=lambda each: each.line)
