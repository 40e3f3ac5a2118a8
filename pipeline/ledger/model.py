"""Records of the ledger, and their conversion to and from rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

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
class KnownGoal:
    """A goal with all that it takes to try it."""

    goal_hash: str
    goal_text: str
    context: tuple[str, ...] = ()
    name: str = ""
    difficulty: float = 0.5
    priority: float = 0.5


@dataclass(frozen=True)
class OpenGoal:
    """Goal without a proof.  `budget`: the largest it was tried with; 0 for one that was never tried."""

    goal: KnownGoal
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


def hash_goal(text: str) -> str:
    """Hash of a goal that Lean gave no key: the same however its text is spaced."""
    return sha256(" ".join(text.split()).encode()).hexdigest()


ATTEMPT_COLUMNS = (
    "goal_hash", "goal_text", "strategy", "success", "time_seconds", "tactics", "timestamp", "error", "verified",
    "subgoals", "metadata", "config", "toolchain", "budget", "run",
)  # fmt: skip
GOAL_COLUMNS = ("goal_hash", "goal_text", "context", "name", "difficulty", "priority")


def column_list(names: Iterable[str], of: str = "") -> str:
    return ", ".join(f"{of}.{name}" if of else name for name in names)


def placeholders(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))


def attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    key = attempt.key
    return (
        key.goal_hash, storable_text(attempt.goal_text), key.strategy, int(attempt.success), attempt.time_seconds,
        json_list(attempt.tactics), attempt.timestamp, storable_text(attempt.error), int(attempt.verified),
        json_list(attempt.subgoals), json_object(attempt.metadata), key.config, key.toolchain, key.budget, attempt.run,
    )  # fmt: skip


def attempt_of(row: Sequence[Any]) -> Attempt:
    it = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
    return Attempt(
        key=AttemptKey(it["goal_hash"], it["strategy"], it["config"], it["toolchain"], it["budget"]),
        goal_text=it["goal_text"],
        success=bool(it["success"]),
        time_seconds=it["time_seconds"],
        timestamp=it["timestamp"],
        tactics=tuple(json.loads(it["tactics"])),
        error=it["error"],
        verified=bool(it["verified"]),
        subgoals=tuple(json.loads(it["subgoals"])),
        metadata=json.loads(it["metadata"]),
        run=it["run"],
    )


def goal_row(goal: KnownGoal) -> tuple[Any, ...]:
    return (
        goal.goal_hash, storable_text(goal.goal_text), json_list(goal.context), storable_text(goal.name),
        goal.difficulty, goal.priority,
    )  # fmt: skip


def open_goal_of(row: Sequence[Any]) -> OpenGoal:
    """Open goal from a row: a goal's columns, then how often it was tried, and with how much at most."""
    name_hash, text, context, name, difficulty, priority, attempts, budget = row
    goal = KnownGoal(name_hash, text, tuple(json.loads(context)), name, difficulty, priority)
    return OpenGoal(goal, attempts, budget)


def cached_tactics_of(row: Sequence[Any]) -> CachedTactics:
    tactics, *rest = row
    return CachedTactics(tuple(json.loads(tactics)), *rest)


def json_list(texts: Iterable[str]) -> str:
    return json.dumps([*texts])


def json_object(mapping: Mapping[str, Any]) -> str:
    return json.dumps(dict(mapping), sort_keys=True)


def storable_text(text: str) -> str:
    """Text that SQLite takes: output of a program may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()
