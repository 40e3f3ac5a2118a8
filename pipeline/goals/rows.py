"""What a row of a bank may hold: a JSON object with the fields of a goal, each checked as it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pipeline.errors import clipped, instead
from pipeline.goals.model import Goal

ROW = 'a row is an object on one line, {"id": "…", "goal": "…", …}'
LONGEST_ROW = 1_000_000
LONGEST_TEXT = 20_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.'-]{0,99}")
# Lean would take none of these for white space, and half a character cannot be written to it.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufeff]")
_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class Wrong(Exception):
    """What is wrong with a row, and what would be right."""


def parse(line: bytes) -> dict[str, Any]:
    """The object in a line; its fields are those of a goal."""
    if len(line) > LONGEST_ROW:
        raise Wrong(f"{len(line):,} bytes; a row may have {LONGEST_ROW:,}")
    found = _json(_decoded(line))
    if not isinstance(found, dict):
        raise Wrong(f"{_KINDS[type(found)]}; {ROW}")
    for name in found:
        if name not in FIELDS:
            raise Wrong(f"unknown field '{clipped(name)}'{instead(name, FIELDS)}")
    return found


def goal(found: Mapping[str, Any], line: int) -> Goal:
    for name in ("id", "goal"):
        if name not in found:
            raise Wrong(f"'{name}' is missing; {ROW}")
    values = {name: FIELDS[name](name, value) for name, value in found.items()}
    return Goal(values.pop("id"), values.pop("goal"), **values, line=line)


def name_of(found: Mapping[str, Any]) -> str:
    """The id, if it is one."""
    name = found.get("id")
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Wrong(f"byte {error.start + 1} is not UTF-8; save the bank as UTF-8") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise Wrong("nested too deeply; the fields of a row are flat") from None
    except ValueError as error:
        raise Wrong(f"not JSON: {clipped(str(error))}; {ROW}") from None


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Wrong(f"'{clipped(name)}' is given twice; keep one")
        found[name] = value
    return found


def _no_number(word: str) -> float:
    raise Wrong(f"{word} is no JSON; use a number from 0 to 1")


def _id(field: str, value: Any) -> str:
    name: str = _expect(field, value, str, "a name")
    if not _NAME.fullmatch(name):
        raise Wrong(f"{field}: {_shown(name)} is no name; use up to 100 letters, digits, _ . - and '")
    return name


def _statement(field: str, value: Any) -> str:
    text: str = _expect(field, value, str, "a Lean proposition as text")
    if not text.strip():
        raise Wrong(f"{field}: it is empty; write a Lean proposition, such as '∀ n : Nat, n + 0 = n'")
    return _lean(field, text)


def _share(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong(f"{field}: found {_KINDS[type(value)]}; use a number from 0 to 1")
    if not 0 <= value <= 1:
        raise Wrong(f"{field}: {clipped(str(value))} is out of range; use a number from 0 to 1")
    return float(value)


def _commands(field: str, value: Any) -> tuple[str, ...]:
    lines = _expect(field, value, list, 'a list of Lean commands, such as ["open Nat"]')
    return tuple(_lean(field, _expect(field, line, str, "a Lean command as text")) for line in lines)


def _metadata(field: str, value: Any) -> Mapping[str, Any]:
    found: dict[str, Any] = _expect(field, value, dict, 'an object, such as {"category": "nat", "topic": "order"}')
    for name, each in found.items():
        if isinstance(each, (dict, list)):
            raise Wrong(f"{field}: {_shown(name)} is {_KINDS[type(each)]}; use text, a number, true or false")
        _writable(field, name + (each if isinstance(each, str) else ""))
    for name in ("category", "topic"):
        if name in found:
            _expect(f"{field}: {name}", found[name], str, "text")
    return found


def _lean(field: str, text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise Wrong(f"{field}: {len(text):,} characters; at most {LONGEST_TEXT:,}")
    return _writable(field, text)


def _writable(field: str, text: str) -> str:
    if bad := _UNWRITABLE.search(text):
        raise Wrong(f"{field}: the character U+{ord(bad[0]):04X} at {bad.start() + 1} cannot be in it; take it out")
    return text


def _expect(field: str, value: Any, kind: type, wanted: str) -> Any:
    if not isinstance(value, kind):
        raise Wrong(f"{field}: found {_KINDS[type(value)]}; use {wanted}")
    return value


def _shown(text: str) -> str:
    return clipped(ascii(text))


# A field's name among those of Goal, and how its value is read.
FIELDS: Mapping[str, Callable[[str, Any], Any]] = {
    "id": _id,
    "goal": _statement,
    "difficulty": _share,
    "priority": _share,
    "context": _commands,
    "metadata": _metadata,
}
