"""The nodes of a proof search: a goal has moves, of which one is enough; a move has goals, of which all are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.tactics.goal import PrintedGoal


@dataclass(eq=False)
class Step:
    """A tactic that took a goal to others."""

    of: Node
    family: str
    tactic: str
    subgoals: list[Node]

    @property
    def done(self) -> bool:
        return all(one.proved_by is not None for one in self.subgoals)


@dataclass(eq=False)
class Node:
    """A goal, and where it stands: the `place`th of `count` goals of a state."""

    goal: PrintedGoal
    state: Any
    place: int
    count: int
    cost: float
    prelude: list[str] = field(default_factory=list)  # brings it into the form that the moves are for
    proved_by: Step | None = None
    uses: list[Step] = field(default_factory=list)


def relevant(node: Node, root: Node) -> bool:
    """Whether a proof of it could be part of a proof of the root."""
    seen: set[int] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one.proved_by is not None or id(one) in seen:
            continue
        if one is root:
            return True
        seen.add(id(one))
        todo.extend(step.of for step in one.uses)
    return False


def settle(step: Step) -> None:
    """A step whose goals are all proved proves its own, and so on upwards."""
    todo = [step]
    while todo:
        one = todo.pop()
        if one.done and one.of.proved_by is None:
            one.of.proved_by = one
            todo.extend(one.of.uses)
