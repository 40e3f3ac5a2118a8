"""Records as JSON files, sorted, so that equal records are equal files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Record = dict[str, Any]


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
