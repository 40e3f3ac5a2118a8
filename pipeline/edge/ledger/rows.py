"""Records as rows of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.edge.ledger.model import Attempt, Cached, Key, KnownGoal, OpenGoal

ATTEMPT = (
    "goal_hash", "goal_text", "strategy", "success", "time_seconds", "tactics", "timestamp", "error", "verified",
    "subgoals", "metadata", "config", "toolchain", "budget", "run",
)  # fmt: skip
GOAL = ("goal_hash", "goal_text", "context", "name", "difficulty", "priority")


def columns(names: Iterable[str], of: str = "") -> str:
    return ", ".join(f"{of}.{name}" if of else name for name in names)


def marks(names: Sequence[str]) -> str:
    return ", ".join("?" * len(names))


def row_of(attempt: Attempt) -> tuple[Any, ...]:
    key = attempt.key
    return (
        key.goal_hash, plain(attempt.goal_text), key.strategy, int(attempt.success), attempt.time_seconds,
        listed(attempt.tactics), attempt.timestamp, plain(attempt.error), int(attempt.verified),
        listed(attempt.subgoals), written(attempt.metadata), key.config, key.toolchain, key.budget, attempt.run,
    )  # fmt: skip


def attempt_of(row: Sequence[Any]) -> Attempt:
    it = dict(zip(ATTEMPT, row, strict=True))
    return Attempt(
        key=Key(it["goal_hash"], it["strategy"], it["config"], it["toolchain"], it["budget"]),
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


def row_of_goal(goal: KnownGoal) -> tuple[Any, ...]:
    return (
        goal.goal_hash, plain(goal.goal_text), listed(goal.context), plain(goal.name), goal.difficulty, goal.priority,
    )  # fmt: skip


def open_goal_of(row: Sequence[Any]) -> OpenGoal:
    """A goal's columns, then how often it was tried, and with how much at most."""
    name_hash, text, context, name, difficulty, priority, attempts, budget = row
    goal = KnownGoal(name_hash, text, tuple(json.loads(context)), name, difficulty, priority)
    return OpenGoal(goal, attempts, budget)


def cached_of(row: Sequence[Any]) -> Cached:
    tactics, *rest = row
    return Cached(tuple(json.loads(tactics)), *rest)


def listed(texts: Iterable[str]) -> str:
    return json.dumps([*texts])


def written(mapping: Mapping[str, Any]) -> str:
    return json.dumps(dict(mapping), sort_keys=True)


def plain(text: str) -> str:
    """What a program printed may hold bytes that are no text, which SQLite would refuse."""
    return text.encode(errors="backslashreplace").decode()
