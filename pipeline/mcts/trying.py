"""Carries out on a Lean what a search asks: takes up a goal, tries tactics on it, tells what they left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.edge.lean.model import (
    HEARTBEATS,
    UNTOLD,
    LeanCrash,
    LeanError,
    Session,
    TacticResult,
    TacticState,
)
from pipeline.mcts import limits, splitting
from pipeline.mcts.calls import Calls
from pipeline.mcts.expanding import carried_out
from pipeline.mcts.model import Attempt, Expand, Move, Outcome, Subgoal
from pipeline.mcts.nodes import Node
from pipeline.mcts.priors import Priors, Proposal
from pipeline.mcts.rewards import Rewards
from pipeline.mcts.tree import Tree
from pipeline.tactics.goal import INACCESSIBLE, read
from pipeline.tactics.naming import new_names

PREPARING = 10.0  # seconds to bring a goal to the front
AGAIN = 60.0  # seconds for a tactic that applied before


class Guide(NamedTuple):
    """What is tried, and what is hoped for."""

    priors: Priors
    rewards: Rewards


class Taken(NamedTuple):
    """A goal in front of all that are open in `state`; `prelude` is how its names came about."""

    state: TacticState
    prelude: tuple[str, ...]
    proposals: dict[str, Proposal]

    def moves(self) -> list[Move]:
        return [Move(each.tactic, each.prior) for each in self.proposals.values()]


class Trying:
    """For one theorem.  A state is made when it is needed, by going the way there again if the session is a new one.

    It may answer while the tree grows: of a goal it reads its origin, place and names, which stay as they are."""

    def __init__(self, session: Session, start: TacticState, guide: Guide) -> None:
        self.session, self.start, self.guide = session, start, guide
        self.calls = Calls()
        self._taken: dict[int, Taken] = {}
        self._left: dict[tuple[int, str], TacticState] = {}  # by a tactic, as a search calls it, of a goal

    def root(self) -> Subgoal:
        return self._subgoals(self.start, 1)[0]

    def answer(self, tree: Tree, expand: Expand) -> Outcome:
        try:
            taken = self.taken(tree.nodes[expand.node])
        except LeanCrash:
            return Outcome(expand.iteration, no_goal=True)
        return self._answered(expand, taken)

    def _answered(self, expand: Expand, taken: Taken) -> Outcome:
        """Where a process is lost for good, what was tried before is told, and the rest is left for later."""
        tried: list[Attempt] = []
        more: list[Move] = []

        def attempt(_: Expand, text: str) -> Attempt:
            tried.append(self._tried(expand.node, taken, text, more))
            return tried[-1]

        try:
            outcome = carried_out(expand, lambda _: taken.moves(), attempt)
        except LeanCrash:
            moves = taken.moves() if tried and not expand.tactics else []
            outcome = Outcome(expand.iteration, tuple(tried), tuple(moves), no_goal=not tried)
        return outcome._replace(moves=(*outcome.moves, *more), units=float(max(1, len(tried))))

    def _tried(self, node: int, taken: Taken, text: str, more: list[Move]) -> Attempt:
        """`more`: moves that the goal has now besides."""
        tactic, times = limits.parted(text)
        proposal = taken.proposals.get(tactic, Proposal(tactic))
        result = self._run(taken.state, tactic, limits.seconds(proposal.seconds, times))
        self.calls.tactics += 1
        if splitting.ran_out(result):
            more += limits.once_more(text, proposal.prior, proposal.seconds)
        try:
            new = splitting.left(taken.state, result, proposal.closing)
            if not isinstance(result, TacticState):
                return Attempt(text)
            goals = self._subgoals(result, len(new))
        except splitting.Refused as why:
            return Attempt(text, error=str(why))
        except LeanCrash:
            return Attempt(text, error="key")  # tried again, it would most likely end in the same way
        self._left[node, text] = result
        return Attempt(text, goals)

    def _run(self, state: TacticState, tactic: str, seconds: float) -> TacticResult:
        tactic = splitting.on_first(tactic, len(state.goals))
        return self._asked(state, tactic, limits.by_the_clock(seconds), limits.heartbeats(seconds))

    def _asked(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        """Where it ended a process, once more in another one: that may have been killed."""
        result = self.session.run_tac(state, tactic, timeout, heartbeats)
        if isinstance(result, LeanError) and result.kind == "crash":
            result = self.session.run_tac(state, tactic, timeout, heartbeats)
        return result

    def _subgoals(self, state: TacticState, count: int) -> tuple[Subgoal, ...]:
        goals = [read(text) for text in state.goals[:count]]
        self.calls.keys += count
        return tuple(
            Subgoal(self.session.key(state, place), splitting.names(goal), self.guide.rewards(goal, count))
            for place, goal in enumerate(goals)
        )

    def taken(self, node: Node) -> Taken:
        """The goal, taken up now if it was not; LeanCrash if it cannot be."""
        for each in reversed(self._way(node)):
            self._taken[each.number] = self._prepared(each)
        return self._taken[node.number]

    def again(self, node: Node) -> int:
        """How many tactics have to be run once more before anything can be tried on the goal."""
        origins = [each.origin for each in self._way(node) if each.origin]
        return sum((origin.owner.number, origin.tactic) not in self._left for origin in origins)

    def _way(self, node: Node) -> list[Node]:
        """Back to a goal that was taken up, which is not part of it."""
        way: list[Node] = []
        each: Node | None = node
        while each is not None and each.number not in self._taken:
            way.append(each)
            each = each.origin.owner if each.origin else None
        return way

    def prelude(self, node: Node) -> tuple[str, ...]:
        """What stands before the tactic of the goal in a script; nothing need be asked of Lean where all has a name."""
        return self.taken(node).prelude if INACCESSIBLE in node.names else ()

    def _prepared(self, node: Node) -> Taken:
        state, place = self._stood(node)
        goal = read(state.goals[place])
        given = new_names(goal)
        prelude = (f"rename_i {' '.join(given)}",) if given else ()
        rotation = (f"rotate_left {place}",) if place else ()
        found = self._brought(state, (*rotation, *prelude))
        if isinstance(found, LeanError) and prelude and found.kind not in UNTOLD:
            found, prelude = self._brought(state, rotation), ()
        if not isinstance(found, TacticState):
            raise LeanCrash(f"goal {node.number} does not come to the front: {found}")
        proposals: dict[str, Proposal] = {}
        for each in self.guide.priors(read(found.goals[0])):
            proposals.setdefault(each.tactic, each)
        return Taken(found, prelude, proposals)

    def _brought(self, state: TacticState, tactics: Sequence[str]) -> TacticResult:
        if not tactics:
            return state
        self.calls.prepared += 1
        return self._asked(state, f"({'; '.join(tactics)})", PREPARING)

    def _stood(self, node: Node) -> tuple[TacticState, int]:
        """Where it was first come to."""
        if node.origin is None:
            return self.start, 0
        owner, text = node.origin.owner, node.origin.tactic
        if (owner.number, text) not in self._left:
            self.calls.again += 1
            result = self._run(self._taken[owner.number].state, limits.parted(text)[0], AGAIN)
            if not isinstance(result, TacticState):
                raise LeanCrash(f"`{text}` does not lead where it did: {result}")
            self._left[owner.number, text] = result
        state = self._left[owner.number, text]
        if node.place >= len(state.goals) or splitting.names(read(state.goals[node.place])) != node.names:
            raise LeanCrash(f"`{text}` does not leave goal {node.number} as it did")
        return state, node.place
