"""The AND/OR graph of a search, growing: goals get moves, moves become actions, actions lead to goals.

A goal is the same node only if it has the same key and the same names; nothing else makes two goals one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from pipeline.mcts.model import Attempt, Maths, Move, Outcome, Subgoal, ordered
from pipeline.mcts.nodes import CHILD, CYCLE, DEAD, OPEN, SAME, SOLVED, Action, Node
from pipeline.mcts.settling import bury, hopeless, settle, solve
from pipeline.mcts.values import better, hope, opens_at, weight, worth


class Graph:
    def __init__(self, maths: Maths, root: Subgoal) -> None:
        self.maths = maths
        self.nodes: list[Node] = []
        self.actions: list[Action] = []
        self.known: dict[tuple[str, str], Node] = {}
        self.depth = self.expansions = self.shrunk = 0
        self.root = self._node(root, None, 0)

    def _node(self, goal: Subgoal, origin: Action | None, place: int) -> Node:
        found = self.known.get(goal[:2])
        if found is not None:
            return found
        if not 0 < goal.value < 1:
            raise ValueError(f"a goal has the value {goal.value}; only between 0 and 1 is it open")
        depth = origin.owner.depth + 1 if origin else 0
        node = self.known[goal[:2]] = Node(len(self.nodes), goal.key, goal.names, goal.value, depth)
        node.origin, node.place = origin, place
        self.depth = max(self.depth, depth)
        self.nodes.append(node)
        if goal.moves is not None:
            self.learn(node, goal.moves)
        if goal.moves == ():
            bury(node)
        return node

    def learn(self, node: Node, moves: Iterable[Move]) -> None:
        """More moves for a goal, or its first."""
        new = ordered(moves)
        if new and not new[-1].prior > 0:
            raise ValueError(f"{new[-1].tactic!r} has the prior {new[-1].prior}; it has to be above 0")
        if node.tactics:
            new = [move for move in new if move.tactic not in node.tactics]
        before = node.tactics or []
        node.untried += range(len(before), len(before) + len(new))
        node.tactics = [*before, *[sys.intern(move.tactic) for move in new]]
        node.priors.extend([move.prior for move in new])
        if before:
            self._sort(node)
        else:
            node.untried.reverse()
        node.opens_at = opens_at(self.maths, node)

    def _sort(self, node: Node) -> None:
        """Ties as they came; the last is the next."""
        node.untried.sort(reverse=True)
        node.untried.sort(key=node.priors.__getitem__)

    def take(self, node: Node, limit: int) -> tuple[str, ...]:
        """The moves that come next, from now on being tried; none if they are still to be found."""
        taken = node.untried[: -limit - 1 : -1]
        del node.untried[len(node.untried) - len(taken) :]
        node.pending += len(taken) or 1
        node.opens_at = opens_at(self.maths, node)
        tactics = node.tactics or ()
        return tuple([tactics[index] for index in taken])

    def land(self, node: Node, taken: Sequence[str], outcome: Outcome) -> list[Action | None]:
        """What became of moves that were taken: an action for each attempt that applied.  The rest is as untried."""
        node.pending -= len(taken) or 1
        if outcome.moves or (node.tactics is None and not outcome.no_goal):
            self.learn(node, outcome.moves)
        landed = [self._attempted(node, attempt, taken) for attempt in outcome.attempts]
        if len(landed) < len(taken):
            self._give_back(node, set(taken).difference(attempt.tactic for attempt in outcome.attempts))
        self._close(node)
        return landed

    def release(self, node: Node, taken: Sequence[str]) -> None:
        """As if the moves had not been taken."""
        node.pending -= len(taken) or 1
        self._give_back(node, set(taken))
        node.opens_at = opens_at(self.maths, node)

    def _give_back(self, node: Node, tactics: set[str]) -> None:
        node.untried += [index for index, tactic in enumerate(node.tactics or ()) if tactic in tactics]
        self._sort(node)

    def _attempted(self, node: Node, attempt: Attempt, taken: Sequence[str]) -> Action | None:
        tactic = attempt.tactic
        index = node.tactics.index(tactic) if node.tactics and tactic in node.tactics else -1
        if tactic not in taken:
            if index not in node.untried:
                raise ValueError(f"{tactic!r} was not to be tried at goal {node.number}")
            node.untried.remove(index)
        if attempt.error or node.tactics is None:
            node.lost += 1
            return None
        self.expansions += 1
        return self._attach(node, node.tactics[index], node.priors[index], attempt.goals)

    def _attach(self, node: Node, tactic: str, prior: float, goals: Sequence[Subgoal]) -> Action:
        action = Action(len(self.actions), node, tactic, prior)
        self.actions.append(action)
        action.visits = 1
        action.weight = weight(self.maths, action)
        action.why = self._bear(action, goals)
        if action.why:
            action.status = DEAD
            node.lost += 1
        else:
            action.value = worth(self.maths, action)
            self._live(node, action)
        return action

    def _bear(self, action: Action, goals: Sequence[Subgoal]) -> str:
        """Its children; or why it is dead at once."""
        node, why, before = action.owner, "", len(self.nodes)
        children: list[Node] = []
        for goal in goals:
            if goal.key == node.key and goal.names == node.names:
                return CYCLE
        for goal in goals:
            child = self._node(goal, action, len(children))
            why = CHILD if child.status == DEAD else why
            children.append(child)
        action.bear(tuple(children))
        if len(self.nodes) == before:  # a goal that is new is left by nothing else
            for other in node.live:
                if other.children == action.children:
                    return why or SAME
        return why

    def _live(self, node: Node, action: Action) -> None:
        for child in action.children:
            if child.status == OPEN:
                child.uses.append(action)
        node.live.append(action)
        node.mass += action.prior
        if node.status == OPEN and better(action, node.best):
            node.best, node.value = action, action.value
        if not action.left and node.status == OPEN:
            solve(action)
            settle(self.maths, [node])
        elif not action.left:
            action.status = SOLVED

    def _close(self, node: Node) -> None:
        node.opens_at = opens_at(self.maths, node)
        if node.best is None and node.status == OPEN:
            node.value = hope(node)
        if node.exhausted:
            self.shrunk += 1
        if hopeless(node):
            bury(node)
            settle(self.maths, [node])
