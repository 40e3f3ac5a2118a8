"""Parse a bank: goals, and refused rows with reasons.

A row is a JSON object with the fields of a goal, each checked as it is read.  Every line is a goal, a refusal, blank,
or a comment (# or //)."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pipeline.core.text import plural
from pipeline.errors import cut_text, did_you_mean
from pipeline.lean.model import Theorem


@dataclass(frozen=True)
class Goal:
    """`text` is the statement; `context` the commands that stand before it; `line` where it is in its bank."""

    id: str
    text: str
    difficulty: float = 0.5
    priority: float = 0.5
    context: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    key: str = ""  # as Lean computes it: equal keys are the same statement


@dataclass(frozen=True)
class Refusal:
    """A row that does not count.  `id` is empty when it has none that can be used."""

    line: int
    id: str
    why: str


@dataclass(frozen=True)
class Bank:
    """Goals and refusals of a bank, by line."""

    goals: tuple[Goal, ...] = ()
    refused: tuple[Refusal, ...] = ()


def theorem_of(goal: Goal) -> Theorem:
    """The theorem of a goal, under a fixed name: an id need not be a name in Lean."""
    return Theorem("goal", goal.text, goal.context)


ROW_SHAPE = 'a row is an object on one line, {"id": "…", "goal": "…", …}'
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


class RowError(Exception):
    """Error in a row: what is wrong, and what would be right."""


def parse_row(line: bytes) -> dict[str, Any]:
    """The object in a line; its fields are those of a goal."""
    if len(line) > LONGEST_ROW:
        raise RowError(f"{len(line):,} bytes; a row may have {LONGEST_ROW:,}")
    try:
        row = json.loads(line.decode(), object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise RowError(f"byte {error.start + 1} is not UTF-8; save the bank as UTF-8") from None
    except RecursionError:
        raise RowError("nested too deeply; the fields of a row are flat") from None
    except ValueError as error:
        raise RowError(f"not JSON: {cut_text(str(error))}; {ROW_SHAPE}") from None
    if not isinstance(row, dict):
        raise RowError(f"{_KINDS[type(row)]}; {ROW_SHAPE}")
    for name in row:
        if name not in ROW_FIELDS:
            raise RowError(f"unknown field '{cut_text(name)}'{did_you_mean(name, ROW_FIELDS)}")
    return row


def goal_from_row(row: Mapping[str, Any], line: int) -> Goal:
    for name in ("id", "goal"):
        if name not in row:
            raise RowError(f"'{name}' is missing; {ROW_SHAPE}")
    values = {name: ROW_FIELDS[name](name, value) for name, value in row.items()}
    return Goal(values.pop("id"), values.pop("goal"), **values, line=line)


def _unique_fields(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in pairs:
        if name in row:
            raise RowError(f"'{cut_text(name)}' is given twice; keep one")
        row[name] = value
    return row


def _refuse_constant(word: str) -> float:
    raise RowError(f"{word} is no JSON; use a number from 0 to 1")


def _read_id(field: str, value: Any) -> str:
    name: str = _expect(field, value, str, "a name")
    if not _NAME.fullmatch(name):
        raise RowError(f"{field}: {cut_text(ascii(name))} is no name; use up to 100 letters, digits, _ . - and '")
    return name


def _read_statement(field: str, value: Any) -> str:
    text: str = _expect(field, value, str, "a Lean proposition as text")
    if not text.strip():
        raise RowError(f"{field}: it is empty; write a Lean proposition, such as '∀ n : Nat, n + 0 = n'")
    return _lean_text(field, text)


def _read_share(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RowError(f"{field}: found {_KINDS[type(value)]}; use a number from 0 to 1")
    if not 0 <= value <= 1:
        raise RowError(f"{field}: {cut_text(str(value))} is out of range; use a number from 0 to 1")
    return float(value)


def _read_commands(field: str, value: Any) -> tuple[str, ...]:
    lines = _expect(field, value, list, 'a list of Lean commands, such as ["open Nat"]')
    return tuple(_lean_text(field, _expect(field, line, str, "a Lean command as text")) for line in lines)


def _read_metadata(field: str, value: Any) -> Mapping[str, Any]:
    metadata: dict[str, Any] = _expect(field, value, dict, 'an object, such as {"category": "nat", "topic": "order"}')
    for name, each in metadata.items():
        if isinstance(each, (dict, list)):
            quoted, kind = cut_text(ascii(name)), _KINDS[type(each)]
            raise RowError(f"{field}: {quoted} is {kind}; use text, a number, true or false")
        _writable_text(field, name + (each if isinstance(each, str) else ""))
    for name in ("category", "topic"):
        if name in metadata:
            _expect(f"{field}: {name}", metadata[name], str, "text")
    return metadata


def _lean_text(field: str, text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise RowError(f"{field}: {len(text):,} characters; at most {LONGEST_TEXT:,}")
    return _writable_text(field, text)


def _writable_text(field: str, text: str) -> str:
    if bad := _UNWRITABLE.search(text):
        raise RowError(f"{field}: the character U+{ord(bad[0]):04X} at {bad.start() + 1} cannot be in it; take it out")
    return text


def _expect(field: str, value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind):
        raise RowError(f"{field}: found {_KINDS[type(value)]}; use {expected}")
    return value


# A field's name among those of Goal, and how its value is read.
ROW_FIELDS: Mapping[str, Callable[[str, Any], Any]] = {
    "id": _read_id,
    "goal": _read_statement,
    "difficulty": _read_share,
    "priority": _read_share,
    "context": _read_commands,
    "metadata": _read_metadata,
}


_COMMENTS = (b"#", b"//")
# Names and signs of statements, to which a context may give another meaning.
_NAMES = frozenset(
    {"False", "True", "Not", "And", "Or", "Iff", "Eq", "Ne", "HEq", "Exists", "Nat", "Int", "Bool", "Fin"}
)
_NAMES |= {"List", "Option", "OfNat", "LE", "LT", "Dvd", "Membership", "HAdd", "HSub", "HMul", "HDiv", "HMod", "HPow"}
_SIGNS = _NAMES | {*"=≠¬∧∨→↔∃∀<≤>≥+-*/%^∣∈∉", "!", "∃!", "==", "::", "++"}
_COMMENT = re.compile(r"--[^\n]*|/-.*?-/", re.DOTALL)
_DECLARED = re.compile(r"\b(?:def|abbrev|theorem|inductive|structure|class|opaque|instance)\s+([^\s:({\[⦃]+)")
_NOTATION = re.compile(r"\b(?:notation|infix[lr]?|prefix|postfix)\b.*", re.DOTALL)
_TOKEN = re.compile(r'"\s*([^"]*?)\s*"')
# Of numbers and truth values as Lean has them: what numerals, sums and comparisons mean.
_INSTANCE = re.compile(
    r"\binstance\b.*?:\s*((?:OfNat|H?(?:Add|Sub|Mul|Div|Mod|Pow)|NatPow|Neg|LE|LT|Dvd)\s+\(?(?:Nat|Int|Bool|Fin)\b)",
    re.DOTALL,
)
_LETTER = re.compile(r"(?<![\w'])[ℕℤℚℝℂ](?![\w'])")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_bank(text: bytes) -> Bank:
    """Read a bank: every line is a goal, a refusal, blank, or a comment (# or //)."""
    if text.startswith(_UTF16):
        return Bank((), (Refusal(1, "", "it is UTF-16; save the bank as UTF-8"),))
    goals: dict[str, Goal] = {}
    refused = []
    # only "\n" ends a row: other line ends of Unicode may stand in a text
    for line, whole in enumerate(text.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        row = whole.strip(b" \t\r")
        if row and not row.startswith(_COMMENTS):
            goal = _read_row(line, row, goals)
            if isinstance(goal, Goal):
                goals[goal.id] = goal
            else:
                refused.append(goal)
    return Bank(tuple(goals.values()), tuple(refused))


def _read_row(line: int, text: bytes, above: Mapping[str, Goal]) -> Goal | Refusal:
    name = ""
    try:
        row = parse_row(text)
        if isinstance(row.get("id"), str) and _NAME.fullmatch(row["id"]):
            name = row["id"]
        goal = goal_from_row(row, line)
    except RowError as wrong:
        return Refusal(line, name, str(wrong))
    if goal.id in above:
        return Refusal(line, goal.id, f"line {above[goal.id].line} has this id; give each goal its own")
    return goal


def refusal_line(file: str, refusal: Refusal) -> str:
    """A refusal in a line."""
    name = f"{refusal.id}: " if refusal.id else ""
    return f"{file}:{refusal.line}: {name}{refusal.why}"


def doubts(goal: Goal, has_library: bool) -> list[Refusal]:
    """Reasons why a goal that counts may not say what it seems to.  `has_library`: Lean may know more than its core."""
    commands = [_COMMENT.sub(" ", each) for each in goal.context]
    context = " ".join(commands)
    reasons = [
        f"its context redefines `{name}`: what is proved may not be what the statement seems to say"
        for name in dict.fromkeys(name for each in commands for name in _redefined_names(each))
    ]
    if not has_library and "import" not in context:
        # letters that stand for numbers in Mathlib alone, unless the goal binds or defines them
        unbound = (each for each in letters(goal.text) if not re.search(rf"{each}[^,()]*:", goal.text))
        reasons += [unknown_letter(letter) for letter in unbound if letter not in context]
    return [Refusal(goal.line, goal.id, why) for why in reasons]


def _redefined_names(command: str) -> Iterator[str]:
    yield from (name for full in _DECLARED.findall(command) if (name := full.rpartition(".")[2]) in _NAMES)
    yield from _INSTANCE.findall(command)
    if notation := _NOTATION.search(command):
        yield from (token for token in _TOKEN.findall(notation[0]) if token in _SIGNS)


def letters(text: str) -> list[str]:
    return [*dict.fromkeys(_LETTER.findall(text))]


def unknown_letter(letter: str) -> str:
    plain = {"ℕ": "write Nat", "ℤ": "write Int"}.get(letter, "only Mathlib has these numbers")
    return f"`{letter}` is no notation without Mathlib, and is taken for a variable that may be any type; {plain}"


def bank_as_json(bank: Bank) -> dict[str, Any]:
    return {"goals": [*map(asdict, bank.goals)], "refused": [*map(asdict, bank.refused)]}


def bank_from_json(record: Mapping[str, Any]) -> Bank:
    return Bank(tuple(map(goal_from_json, record["goals"])), tuple(Refusal(**row) for row in record["refused"]))


def goal_from_json(record: Mapping[str, Any]) -> Goal:
    """A goal from JSON, which may have more fields."""
    known = {each.name: record[each.name] for each in fields(Goal) if each.name in record}
    return Goal(**{**known, "context": tuple(record["context"])})


MOST_ROWS = 10  # rows that are listed


def bank_lines(file: str, refused: Iterable[Refusal], goals: Iterable[Goal], has_library: bool) -> Iterator[str]:
    """Lines about rows that do not count, and about goals that may not say what they seem to."""
    doubted = (each for goal in goals for each in doubts(goal, has_library))
    yield from _titled_list("row", "of the bank not counted", [refusal_line(file, each) for each in refused])
    yield from _titled_list("warning", "about what the bank says", [refusal_line(file, each) for each in doubted])


def _titled_list(noun: str, title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        more = [f"and {len(lines) - MOST_ROWS} more"] if len(lines) > MOST_ROWS else []
        yield "\n  ".join([f"{plural(len(lines), noun)} {title}:", *lines[:MOST_ROWS], *more]) + "\n"
