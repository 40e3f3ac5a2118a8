"""Records as JSON files, sorted, so that equal records are equal files; and as lines of a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pipeline.errors import SpecError

Record = dict[str, Any]
LATEST = 253402300800.0  # seconds, the year 10000: a time after that cannot be told


@contextmanager
def intact(path: str) -> Iterator[None]:
    """Say for people that the record is damaged where it cannot be read, or lacks what is looked up in it."""
    try:
        yield
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SpecError(f"{path}: damaged: {why}; remove it, and build it again") from error


def load(path: str) -> Record:
    with open(path, encoding="utf-8") as file:
        record: Record = json.load(file)
    return record


def save(path: str, record: Mapping[str, Any]) -> None:
    write(path, json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def load_lines(path: str) -> list[Record]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def record_of(line: bytes) -> Record:
    """The record that a line of a log is; empty where it is none, which anybody may have written there."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {}


def is_time(value: Any) -> bool:
    """Check that a value of a record is a number of seconds that can be told."""
    return isinstance(value, int | float) and abs(value) < LATEST


def save_lines(path: str, records: Iterable[Mapping[str, Any]]) -> None:
    write(path, "".join(json.dumps(each, sort_keys=True, ensure_ascii=False) + "\n" for each in records))


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
