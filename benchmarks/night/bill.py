"""The bill of a night: what the server answered and what the search recorded, question by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from tests.kit.scripted_models import Entry

GRACE = 1.0  # seconds before a kill in which an answer may have been under way


class Bill(NamedTuple):
    """`again`: answers to questions that had been answered already; `under_way`: of these, lost by a kill.

    `usd`: all that the server has to get, less what was under way; `recorded`: the sum of recorded calls."""

    answers: int
    again: list[str]
    under_way: list[str]
    unknown: int
    usd: float
    lost_usd: float
    recorded: float


def question_key(role: str, prompt: str) -> str:
    """As the server makes it, for a question without tools."""
    return sha256(f"{role}\0{0}\0{prompt}".encode(errors="replace")).hexdigest()


def audit(
    answers: Sequence[Entry], undisturbed: Iterable[Entry], calls: Iterable[dict[str, Any]], kills: Sequence[float]
) -> Bill:
    """Compare the answers of a disturbed search with those of the same search undisturbed, and with its records."""
    usual = Counter(entry.key for entry in undisturbed)
    settled = [call for call in calls if call["exit"] != 75]
    records = Counter(question_key(call["role"], call["prompt"]) for call in settled)
    again: list[str] = []
    under_way: list[str] = []
    lost_usd = 0.0
    for key in {entry.key: None for entry in answers}:
        of_key = sorted((entry for entry in answers if entry.key == key), key=lambda entry: entry.sent or 0.0)
        missing = len(of_key) - records[key]
        lost = [entry for entry in of_key if _was_under_way(entry, kills)][: max(0, missing)]
        lost_usd += sum(entry.usd for entry in lost)
        under_way += [_describe(entry) for entry in lost]
        more = len(of_key) - len(lost) - max(1, usual[key])
        again += [_describe(entry) for entry in of_key[len(of_key) - max(0, more) :]]
    recorded = sum(call["usage"]["usd"] or 0.0 for call in settled)
    unknown = sum(1 for key in {entry.key for entry in answers} if not usual[key])
    usd = sum(entry.usd for entry in answers) - lost_usd
    return Bill(len(answers), again, under_way, unknown, usd, lost_usd, recorded)


def _was_under_way(entry: Entry, kills: Sequence[float]) -> bool:
    """Check if nobody was there any more who could have kept the answer, or hardly."""
    return entry.sent is not None and any(entry.at <= kill and kill - GRACE <= entry.sent for kill in kills)


def _describe(entry: Entry) -> str:
    return f"request {entry.number}: {entry.role}, knob {entry.idea}"
