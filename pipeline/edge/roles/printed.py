"""What a command printed as JSON, one document or one a line, and what stands in it at a dotted path."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from pipeline.edge.roles.contract import Usage, amount

MISSING = object()
NO_JSON = (ValueError, RecursionError)


def documents(text: str) -> list[Any]:
    """A list stands for what is in it: some tools print all their messages as one."""
    try:
        whole = json.loads(text)
    except NO_JSON:
        return [found for line in text.splitlines() if (found := _parsed(line)) is not MISSING]
    return whole if isinstance(whole, list) else [whole]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except NO_JSON:
        return MISSING


def last_at(path: str, found: Sequence[Any]) -> Any:
    """Of the documents that have the path, the last one counts."""
    values = (at(path, document) for document in reversed(found))
    return next((value for value in values if value is not MISSING), MISSING)


def at(path: str, value: Any) -> Any:
    for word in path.split("."):
        if isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        elif isinstance(value, dict) and word in value:
            value = value[word]
        else:
            return MISSING
    return value


def usage_in(found: Sequence[Any], paths: Mapping[str, Sequence[str]]) -> tuple[Usage, list[str]]:
    """What it cost, and the paths at which no number stands.  Numbers at several paths are added up."""
    numbers = {path: amount(last_at(path, found)) for name in Usage._fields for path in paths.get(name, ())}
    usd, read, written = (fsum(numbers[path] or 0.0 for path in paths.get(name, ())) for name in Usage._fields)
    return Usage(usd, round(read), round(written)), [path for path, number in numbers.items() if number is None]
