"""What a bandit is asked and told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

FAILED = "failed "  # begins the trait of a goal that withstood an arm


class Shape(NamedTuple):
    """What is known of a goal before it is tried: the class it belongs to, and traits, in an order that stays."""

    kind: str
    traits: tuple[str, ...] = ()

    def failure(self, arm: str) -> str:
        """The trait that it gets if `arm` fails on it next: at each level an arm is tried once."""
        level = 0
        while (trait := f"{FAILED}{arm} {level}") in self.traits:
            level += 1
        return trait

    def after(self, arm: str, level: int) -> Shape:
        """Of the goal, once `arm` has failed on it."""
        return self._replace(traits=(*self.traits, f"{FAILED}{arm} {level}"))


class Bandit(Protocol):
    """Draws no random numbers: told the same, it chooses the same.  Ties go to the arm that is listed first.

    It learns from attempts that ended by themselves; one that was cancelled says nothing about its arm."""

    def choose(self, arms: Sequence[str], shape: Shape, n: int) -> list[str]:
        """At most `n` of the arms, the best first."""

    def learn(self, arm: str, shape: Shape, success: bool, seconds: float) -> None:
        """How an attempt ended.  `shape` is what the goal was when the arm was chosen."""

    def learned(self) -> Mapping[str, Any]:
        """All that it knows, as JSON can keep it."""

    def restore(self, learned: Mapping[str, Any]) -> None:
        """Know just that."""


def best(arms: Iterable[str], score: Callable[[str], float], n: int) -> list[str]:
    """Sorting is stable: of equal arms the one listed first comes first."""
    return sorted(arms, key=score, reverse=True)[:n]
