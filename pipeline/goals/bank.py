"""A bank of goals as text, a row a line: the goals it has, and what is wrong with the other rows."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from pipeline.goals import rows
from pipeline.goals.model import Bank, Goal, Refusal

_COMMENTS = (b"#", b"//")
# What a statement takes for granted: names and signs that its context may give another meaning.
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


def doubts(goal: Goal, has_library: bool) -> list[Refusal]:
    """Why it may not say what it seems to, though it counts.  `has_library`: more may be known than Lean's core."""
    commands = [_COMMENT.sub(" ", each) for each in goal.context]
    found = [
        f"its context redefines `{name}`: what is proved may not be what the statement seems to say"
        for name in dict.fromkeys(name for each in commands for name in _redefined(each))
    ]
    found += [] if has_library else _variables(goal.text, " ".join(commands))
    return [Refusal(goal.line, goal.id, why) for why in found]


def _redefined(command: str) -> Iterator[str]:
    yield from (name for found in _DECLARED.findall(command) if (name := found.rpartition(".")[2]) in _NAMES)
    yield from _INSTANCE.findall(command)
    if notation := _NOTATION.search(command):
        yield from (token for token in _TOKEN.findall(notation[0]) if token in _SIGNS)


def _variables(text: str, context: str) -> Iterator[str]:
    """Letters that stand for numbers in Mathlib alone; who binds or defines one means it."""
    for letter in letters(text):
        if not re.search(rf"{letter}[^,()]*:", text) and letter not in context and "import" not in context:
            yield unknown_letter(letter)


def letters(text: str) -> list[str]:
    return [*dict.fromkeys(_LETTER.findall(text))]


def unknown_letter(letter: str) -> str:
    plain = {"ℕ": "write Nat", "ℤ": "write Int"}.get(letter, "only Mathlib has these numbers")
    return f"`{letter}` is no notation without Mathlib, and is taken for a variable that may be any type; {plain}"


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
