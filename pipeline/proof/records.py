"""Records of a proof run on disk: samples with their attempts (proofs.jsonl), and the search (search.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, Self

from pipeline.goals.bank import Goal, goal_from_json
from pipeline.store.records import Record, load_lines

PROVED, OPEN, FRONTIER = "proved", "open", "frontier"
FOUND = "found"  # for views: a proof that the last check has not seen


class Sample(NamedTuple):
    """One of several attempts to prove the same goal, each from nothing; the first has the goal's own name."""

    goal: Goal
    number: int = 0

    @property
    def name(self) -> str:
        return f"{self.goal.id}#{self.number}" if self.number else self.goal.id


class AttemptRecord(NamedTuple):
    """`budget` and `seconds`: how long it might take, and took. `raised`: by a mistake in its worker."""

    strategy: str
    level: int
    budget: float
    success: bool
    seconds: float
    error: str
    recalled: bool
    raised: bool = False


class SampleRecord(NamedTuple):
    """A sample after the search. `seconds` are those of all attempts up to the proof; `why` it has none.

    Its status is PROVED, OPEN (all was tried) or FRONTIER (not tried to the end)."""

    of: Sample
    status: str
    strategy: str
    level: int
    tactics: tuple[str, ...]
    seconds: float
    attempts: tuple[AttemptRecord, ...]
    why: str = ""

    @property
    def is_proved(self) -> bool:
        return self.status == PROVED

    @property
    def has_script(self) -> bool:
        return self.status in (PROVED, FOUND)

    def as_json(self) -> Record:
        goal = self.of.goal
        return {
            **self._asdict(),
            "key": self.of.name,
            "goal": goal.id,
            "sample": self.of.number,
            "line": goal.line,
            "difficulty": goal.difficulty,
            "metadata": dict(goal.metadata),
            "of": asdict(goal),
            "attempts": [each._asdict() for each in self.attempts],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        own = {name: fields[name] for name in ("status", "strategy", "level", "seconds", "why")}
        return cls(
            **own,
            of=Sample(goal_from_json(fields["of"]), fields["sample"]),
            tactics=tuple(fields["tactics"]),
            attempts=tuple(AttemptRecord(**each) for each in fields["attempts"]),
        )


def load_samples(path: str) -> list[SampleRecord]:
    return [*map(SampleRecord.from_json, load_lines(path))]


class SearchRecord(NamedTuple):
    """The search as a whole. `started` and `timestamp`: its begin and its end; `stopped`: why before all was tried."""

    timestamp: str
    started: str
    seconds: float
    stopped: str
    samples: int
    strategies: tuple[str, ...]
    toolchain: str
    config: Mapping[str, Any]
