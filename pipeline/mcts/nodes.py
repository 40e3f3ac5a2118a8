"""The nodes of the graph: a goal has actions, of which one is enough; an action has goals, of which all are needed."""

from __future__ import annotations

from array import array
from math import inf

OPEN, SOLVED, DEAD = 0, 1, 2
WORDS = ("open", "solved", "dead")
CYCLE, CHILD, SAME = "cycle", "child", "same"  # why an action that applied is dead


class Node:
    """A goal.  Millions of times read: hence slots, and what a visit needs is computed when it changes."""

    __slots__ = (
        "best",  # the live action that was visited most
        "checked",
        "depth",
        "estimate",  # the value it was told of with
        "flying",  # reservations that pass through it or end here
        "key",
        "live",
        "lost",  # moves that came to nothing
        "mark",
        "mass",  # the priors of live actions together
        "names",
        "number",
        "opens_at",  # more visits than this, and another move may be tried
        "origin",
        "pending",  # of its moves: being tried just now
        "place",
        "priors",
        "proof",
        "status",
        "tactics",
        "untried",  # the next to try is the last
        "uses",
        "value",
        "visits",
    )

    def __init__(self, number: int, key: str, names: str, value: float, depth: int) -> None:
        self.number, self.key, self.names, self.depth = number, key, names, depth
        self.estimate = self.value = value
        self.visits = self.flying = self.pending = self.lost = self.status = 0
        self.mark = self.checked = -1
        self.mass = 0.0
        self.opens_at = -1.0
        self.tactics: list[str] | None = None
        self.priors = array("d")
        self.untried: list[int] = []
        self.live: list[Action] = []
        self.uses: list[Action] = []
        self.best: Action | None = None
        self.proof: Action | None = None
        self.origin: Action | None = None
        self.place = 0

    @property
    def exhausted(self) -> bool:
        """Nothing is left to be tried here, nor being tried."""
        return self.tactics is not None and not self.untried and not self.pending


class Action:
    """A tactic that applied; its children are the goals that it left."""

    __slots__ = (
        "children",
        "flying",
        "left",  # children that are not solved yet
        "number",
        "one",  # the child, if there is but one
        "owner",
        "prior",
        "status",
        "tactic",
        "value",
        "visits",
        "weight",  # of it in exploring
        "why",
    )

    def __init__(self, number: int, owner: Node, tactic: str, prior: float) -> None:
        self.number, self.owner, self.tactic, self.prior = number, owner, tactic, prior
        self.visits = self.flying = self.status = self.left = 0
        self.value, self.weight, self.why = 0.0, inf, ""
        self.children: tuple[Node, ...] = ()
        self.one: Node | None = None

    def bear(self, children: tuple[Node, ...]) -> None:
        self.children = children
        if len(children) == 1:
            self.one = children[0]
        for child in children:
            self.left += child.status != SOLVED
