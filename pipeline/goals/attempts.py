"""Records of the ledger, and their conversion to and from rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.goals.bank import Goal

# Tactics that hold more often than this are tried before anything else.
WORTH_TRYING = 0.7


class AttemptKey(NamedTuple):
    """Key of an attempt: a later one with the same key is recalled, not made."""

    goal_hash: str
    strategy: str
    config: str
    toolchain: str
    budget: float


@dataclass(frozen=True)
class Attempt:
    """`success`: a proof was found; `verified`: all of it passed the check.  `timestamp` in seconds since 1970."""

    key: AttemptKey
    goal_text: str
    success: bool
    time_seconds: float
    timestamp: float
    tactics: tuple[str, ...] = ()
    error: str = ""
    verified: bool = False
    subgoals: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""


@dataclass(frozen=True)
class OpenGoal:
    """Goal without a proof.  `budget`: the largest it was tried with; 0 for one that was never tried."""

    goal: Goal
    attempts: int
    budget: float


@dataclass(frozen=True)
class CachedTactics:
    """Tactics that proved a goal, and how they did when they were tried again."""

    tactics: tuple[str, ...]
    success_rate: float
    avg_time: float
    use_count: int


@dataclass(frozen=True)
class StrategyStats:
    """Sums over the attempts of one strategy."""

    strategy: str
    attempts: int
    successes: int
    avg_time: float


@dataclass(frozen=True)
class LedgerStats:
    """`frontier`: goals without a proof; `untried`: those of them that were never tried."""

    goals: int
    proved: int
    frontier: int
    untried: int
    attempts: int
    cached_tactics: int
    strategies: Sequence[StrategyStats]


ATTEMPT_COLUMNS = (
    "goal_hash", "goal_text", "strategy", "success", "time_seconds", "tactics", "timestamp", "error", "verified",
    "subgoals", "metadata", "config", "toolchain", "budget", "run",
)  # fmt: skip
GOAL_COLUMNS = ("goal_hash", "goal_text", "context", "name", "difficulty", "priority")


def insert_into(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    key = attempt.key
    return (
        key.goal_hash, storable_text(attempt.goal_text), key.strategy, int(attempt.success), attempt.time_seconds,
        json_list(attempt.tactics), attempt.timestamp, storable_text(attempt.error), int(attempt.verified),
        json_list(attempt.subgoals), json.dumps(dict(attempt.metadata), sort_keys=True), key.config, key.toolchain,
        key.budget, attempt.run,
    )  # fmt: skip


def attempt_of(row: Sequence[Any]) -> Attempt:
    values = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
    key = AttemptKey(*(values.pop(name) for name in AttemptKey._fields))
    for name in ("success", "verified"):
        values[name] = bool(values[name])
    for name in ("tactics", "subgoals"):
        values[name] = tuple(json.loads(values[name]))
    values["metadata"] = json.loads(values["metadata"])
    return Attempt(key, **values)


def goal_row(goal: Goal) -> tuple[Any, ...]:
    text, name = storable_text(goal.text), storable_text(goal.id)
    return goal.key, text, json_list(goal.context), name, goal.difficulty, goal.priority


def open_goal_of(row: Sequence[Any]) -> OpenGoal:
    """Open goal from a row: a goal's columns, then how often it was tried, and with how much at most."""
    key, text, context, name, difficulty, priority, attempts, budget = row
    return OpenGoal(Goal(name, text, difficulty, priority, tuple(json.loads(context)), key=key), attempts, budget)


def json_list(texts: Iterable[str]) -> str:
    return json.dumps([*texts])


def storable_text(text: str) -> str:
    """Text that SQLite takes: output of a program may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()
