"""Goals and proofs as files: JSON, sorted, so that equal records are equal files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from pipeline.edge.lean.model import Theorem
from pipeline.goals.model import Goal

Record = dict[str, Any]
_OF_GOAL = {field.name for field in fields(Goal)}


def load(path: str) -> Record:
    with open(path, encoding="utf-8") as file:
        record: Record = json.load(file)
    return record


def save(path: str, record: Mapping[str, Any]) -> None:
    write(path, json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def load_lines(path: str) -> list[Record]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def save_lines(path: str, records: Iterable[Mapping[str, Any]]) -> None:
    write(path, "".join(json.dumps(each, sort_keys=True, ensure_ascii=False) + "\n" for each in records))


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def as_record(goal: Goal) -> Record:
    return {**asdict(goal), "metadata": dict(goal.metadata)}


def goal_of(record: Mapping[str, Any]) -> Goal:
    known = {name: value for name, value in record.items() if name in _OF_GOAL}
    return Goal(**{**known, "context": tuple(record["context"])})


def theorem_of(goal: Goal) -> Theorem:
    """An id need not be a name in Lean."""
    return Theorem("goal", goal.text, goal.context)
