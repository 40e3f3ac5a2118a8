"""Rooms of several runs in one build: each is called `run:room`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pipeline.core.graph import Target


class Plan(Protocol):
    """What is asked of the plan of a run."""

    @property
    def run(self) -> str: ...

    @property
    def rooms(self) -> Mapping[str, int]: ...


def rooms(plans: Iterable[Plan]) -> dict[str, int]:
    """Their places."""
    return {f"{plan.run}:{room}": places for plan in plans for room, places in plan.rooms.items()}


def rooms_of(target: Target) -> tuple[str, ...]:
    """Those that it needs a place in, each; none for a target that may run anywhere."""
    return tuple(f"{target.run}:{room}" for room in target.limits.rooms)


def spoken(room: str) -> str:
    """A room that is a number in the spec is called after its step."""
    return room.removeprefix("step ").rpartition(" ")[0] if room.startswith("step ") else room
