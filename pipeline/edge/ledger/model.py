"""What the ledger keeps: attempts by their key, goals that are open, tactics that proved something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

# Tactics that hold more often than this are tried before anything else.
WORTH_TRYING = 0.7


class Key(NamedTuple):
    """What makes two attempts the same: the later one is recalled, not made."""

    goal_hash: str
    strategy: str
    config: str
    toolchain: str
    budget: float


@dataclass(frozen=True)
class Attempt:
    """`success`: a proof was found; `verified`: all of it passed the check.  `timestamp` in seconds since 1970."""

    key: Key
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
    """A goal that somebody asked for: all that it takes to try it."""

    goal_hash: str
    goal_text: str
    context: tuple[str, ...] = ()
    name: str = ""
    difficulty: float = 0.5
    priority: float = 0.5


@dataclass(frozen=True)
class OpenGoal:
    """One without a proof.  `budget`: the largest it was tried with; 0 for one that was never tried."""

    goal: KnownGoal
    attempts: int
    budget: float


@dataclass(frozen=True)
class Cached:
    """Tactics that proved a goal, and how they did when they were tried again."""

    tactics: tuple[str, ...]
    success_rate: float
    avg_time: float
    use_count: int


@dataclass(frozen=True)
class OfStrategy:
    """What attempts of one strategy came to."""

    strategy: str
    attempts: int
    successes: int
    avg_time: float


@dataclass(frozen=True)
class Stats:
    """`frontier`: goals without a proof; `untried`: those of them that nobody has tried."""

    goals: int
    proved: int
    frontier: int
    untried: int
    attempts: int
    cached_tactics: int
    strategies: Sequence[OfStrategy]


def hash_goal(text: str) -> str:
    """For a goal that Lean gave no key: the same however its text is spaced."""
    return sha256(" ".join(text.split()).encode()).hexdigest()
