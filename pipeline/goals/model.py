"""A goal of a bank, and a bank: the goals that count, and the rows that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


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

    def keyed(self, key: str) -> Goal:
        return replace(self, key=key)


@dataclass(frozen=True)
class Refusal:
    """A row that does not count.  `id` is empty when it has none that can be used."""

    line: int
    id: str
    why: str


@dataclass(frozen=True)
class Bank:
    """Both by line."""

    goals: tuple[Goal, ...] = ()
    refused: tuple[Refusal, ...] = ()
