"""What Lean's answers through LeanDojo mean: goals, kinds of errors, and whether a checked file holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.edge.lean import keys
from pipeline.edge.lean.dojo_files import Checked
from pipeline.edge.lean.model import TRUSTED, LeanError

# LeanDojo tells what went wrong as text alone.  The first that is found says the kind.
KINDS = (
    ("contains `sorry`", "sorry"),
    ("kernel", "kernel"),
    ("maximum number of heartbeats", "heartbeats"),
    ("maximum recursion depth", "recursion"),
    ("<stdin>:", "parse"),
)
_CASE = re.compile(r"\Acase [^\n]*\n")
_BROKEN = re.compile(r"\n\s+")
_SPACE = re.compile(r"\s+")
_AXIOMS = re.compile(r"'(?P<name>\S+)' (?:does not depend on any axioms|depends on axioms: \[(?P<list>[^\]]*)\])")

Message = Mapping[str, Any]


def goals(pp: str) -> tuple[str, ...]:
    """A line for each hypothesis, as our REPL prints them; LeanDojo breaks lines at 120 characters."""
    return tuple(_BROKEN.sub(" ", goal.strip()) for goal in pp.split("\n\n") if "⊢" in goal)


def kind(error: str) -> str:
    return next((kind for sign, kind in KINDS if sign in error), "tactic")


def key(before: Sequence[str], goal: str) -> str:
    """Of a goal as it is printed, without its name and how its lines are broken.

    Names of hypotheses, and their order, tell goals apart: text cannot say what else is the same."""
    plain = _SPACE.sub(" ", _CASE.sub("", goal.strip())).strip()
    return keys.key(before, plain)


def messages(printed: str) -> list[Message]:
    """Of `lean --json`: a line each.  What is no message was printed by something else."""
    found: list[Message] = []
    for line in printed.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "severity" in message and "data" in message:
            found.append(message)
    return found


def first_error(found: Sequence[Message]) -> str:
    return next((str(message["data"]).strip() for message in found if message["severity"] == "error"), "")


def verdict(file: Checked, code: int, found: Sequence[Message]) -> LeanError | None:
    """None when the file holds: no error, no hole, and it rests on trusted axioms, as Lean says once, in its place."""
    if wrong := first_error(found):
        return LeanError(wrong, kind(wrong))
    if code:
        return LeanError(f"Lean ended with {code}", "crash")
    if any("declaration uses" in str(message["data"]) and "sorry" in str(message["data"]) for message in found):
        return LeanError("there is a `sorry` in it", "sorry")
    said = [message for message in found if _line(message) == file.line]
    told = _AXIOMS.fullmatch(str(said[0]["data"]).strip()) if len(said) == 1 else None
    if told is None or told["name"] != file.name.removeprefix("_root_."):
        return LeanError("Lean did not say which axioms it rests on", "axioms")
    foreign = sorted({name.strip() for name in (told["list"] or "").split(",")} - TRUSTED - {""})
    return LeanError(f"the proof rests on {', '.join(foreign)}", "axioms") if foreign else None


def _line(message: Message) -> int:
    position = message.get("pos")
    return int(position["line"]) if isinstance(position, dict) else 0
