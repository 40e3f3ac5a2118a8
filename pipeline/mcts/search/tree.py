"""The search tree: an AND/OR graph that grows, selection down it, and backup up it; shared by both policies.

A goal is the same node only if it has the same key and the same names; nothing else makes two goals one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from math import log, sqrt
from typing import NamedTuple

from pipeline.mcts.search.nodes import (
    CHILD,
    CYCLE,
    DEAD,
    OPEN,
    SAME,
    SOLVED,
    Action,
    GoalNode,
    action_value,
    fallback_value,
    is_hopeless,
    is_more_visited,
    mark_cyclic_dead,
    mark_dead,
    mark_solved,
    next_opening,
    propagate,
    weakest_child,
)
from pipeline.mcts.search.records import (
    PUCT,
    ExpandOutcome,
    SelectionRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
    order_moves,
)


class Selection(NamedTuple):
    """The way down and where it ends.  `opens`: a move may be tried there; otherwise there is no way on."""

    path: list[Action]
    node: GoalNode
    opens: bool

    def nodes(self) -> tuple[int, ...]:
        return (*[action.owner.number for action in self.path], self.node.number)


class SearchTree:
    def __init__(self, maths: SelectionRules, root: Subgoal) -> None:
        self.maths = maths
        self.nodes: list[GoalNode] = []
        self.actions: list[Action] = []
        self.known: dict[tuple[str, str], GoalNode] = {}
        self.depth = self.expansions = self.shrunk = self._stamp = 0
        self.root = self._node(root, None, 0)

    def _node(self, goal: Subgoal, origin: Action | None, place: int) -> GoalNode:
        found = self.known.get(goal[:2])
        if found is not None:
            return found
        if not 0 < goal.value < 1:
            raise ValueError(f"a goal has the value {goal.value}; only between 0 and 1 is it open")
        depth = origin.owner.depth + 1 if origin else 0
        node = GoalNode(len(self.nodes), goal.key, goal.names, goal.value, depth, origin, place, goal.value)
        self.known[goal[:2]] = node
        self.depth = max(self.depth, depth)
        self.nodes.append(node)
        if goal.moves is not None:
            self.learn(node, goal.moves)
        if goal.moves == ():
            mark_dead(node)
        return node

    def learn(self, node: GoalNode, moves: Iterable[WeightedMove]) -> None:
        """Add moves to a goal, or give it its first."""
        new = order_moves(moves)
        if new and not new[-1].prior > 0:
            raise ValueError(f"{new[-1].tactic!r} has the prior {new[-1].prior}; it has to be above 0")
        before = node.tactics or []
        new = [move for move in new if move.tactic not in before]
        node.untried += range(len(before), len(before) + len(new))
        node.tactics = [*before, *[sys.intern(move.tactic) for move in new]]
        node.priors.extend([move.prior for move in new])
        if before:
            self._sort(node)
        else:
            node.untried.reverse()
        node.opens_at = next_opening(self.maths, node)

    def _sort(self, node: GoalNode) -> None:
        """Sort by prior, ties as they came; the last is the next."""
        node.untried.sort(reverse=True)
        node.untried.sort(key=node.priors.__getitem__)

    def take(self, node: GoalNode, limit: int) -> tuple[str, ...]:
        """Take the moves that come next, from now on being tried; none if they are still to be found."""
        taken = node.untried[: -limit - 1 : -1]
        del node.untried[len(node.untried) - len(taken) :]
        node.pending += len(taken) or 1
        node.opens_at = next_opening(self.maths, node)
        tactics = node.tactics or ()
        return tuple([tactics[index] for index in taken])

    def land(self, node: GoalNode, taken: Sequence[str], outcome: ExpandOutcome) -> list[Action | None]:
        """Enter the outcome of moves taken: an action for each attempt that applied.  The rest is as untried."""
        node.pending -= len(taken) or 1
        if outcome.moves or (node.tactics is None and not outcome.no_goal):
            self.learn(node, outcome.moves)
        landed = [self._enter_attempt(node, attempt, taken) for attempt in outcome.attempts]
        if len(landed) < len(taken):
            self._give_back(node, set(taken).difference(attempt.tactic for attempt in outcome.attempts))
        node.opens_at = next_opening(self.maths, node)
        if node.best is None and node.status == OPEN:
            node.value = fallback_value(node)
        self.shrunk += node.exhausted
        if is_hopeless(node):
            mark_dead(node)
            propagate(self.maths, [node])
        return landed

    def release(self, node: GoalNode, taken: Sequence[str]) -> None:
        """Give the moves back as if they had not been taken."""
        node.pending -= len(taken) or 1
        self._give_back(node, set(taken))
        node.opens_at = next_opening(self.maths, node)

    def _give_back(self, node: GoalNode, tactics: set[str]) -> None:
        node.untried += [index for index, tactic in enumerate(node.tactics or ()) if tactic in tactics]
        self._sort(node)

    def _enter_attempt(self, node: GoalNode, attempt: TacticAttempt, taken: Sequence[str]) -> Action | None:
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
        action = Action(len(self.actions), node, node.tactics[index], node.priors[index], visits=1)
        self.actions.append(action)
        action.weight = action.prior / 2 if self.maths.selection == PUCT else 1.0  # as in `backup`
        action.why = self._add_children(action, attempt.goals)
        if action.why:
            action.status = DEAD
            node.lost += 1
        else:
            action.value = action_value(self.maths, action)
            self._add_live(node, action)
        return action

    def _add_children(self, action: Action, goals: Sequence[Subgoal]) -> str:
        """Give the action its children; the reason why it is dead at once, if so."""
        node, why, before = action.owner, "", len(self.nodes)
        children: list[GoalNode] = []
        for goal in goals:
            if goal.key == node.key and goal.names == node.names:
                return CYCLE
        for goal in goals:
            child = self._node(goal, action, len(children))
            why = CHILD if child.status == DEAD else why
            children.append(child)
        action.children = tuple(children)
        action.one = children[0] if len(children) == 1 else None
        action.left = sum(child.status != SOLVED for child in children)
        if len(self.nodes) == before:  # a goal that is new is left by nothing else
            for other in node.live:
                if other.children == action.children:
                    return why or SAME
        return why

    def _add_live(self, node: GoalNode, action: Action) -> None:
        for child in action.children:
            if child.status == OPEN:
                child.uses.append(action)
        node.live.append(action)
        node.mass += action.prior
        if node.status == OPEN and is_more_visited(action, node.best):
            node.best, node.value = action, action.value
        if not action.left and node.status == OPEN:
            mark_solved(action)
            propagate(self.maths, [node])
        elif not action.left:
            action.status = SOLVED

    def stamp(self) -> int:
        """A mark that no goal has yet, for those on the way down."""
        self._stamp += 1
        return self._stamp

    def select(self) -> Selection:
        """Go down from the root to where a move may be tried, at each goal by the action that scores highest."""
        mark = self.stamp()
        puct, explore = self.maths.selection == PUCT, self.maths.explore
        path: list[Action] = []
        node = self.root
        while True:
            node.mark = mark
            visits = node.visits
            if visits > node.opens_at:
                return Selection(path, node, True)
            reach = explore * (sqrt(visits) / node.mass if puct else sqrt(log(visits)))
            top, best = -1.0, None
            for action in node.live:
                score = action.value + reach * action.weight
                if score > top:
                    top, best = score, action
            child = best.one or weakest_child(best, mark) if best else None
            if best is None or child is None or child.mark == mark:
                best = self.best_way_around(node, reach, mark)
                child = weakest_child(best, mark) if best else None
                if best is None or child is None:
                    return Selection(path, node, bool(node.untried))
            path.append(best)
            node = child

    def best_way_around(self, node: GoalNode, reach: float, mark: int) -> Action | None:
        """The best action that does not need a goal on the way here."""
        ways = [action for action in node.live if weakest_child(action, mark)]
        return max(ways, key=lambda action: action.value + reach * action.weight, default=None)

    def backup(self, path: Sequence[Action], node: GoalNode) -> None:
        """Count a visit on the way up. A goal is worth what its most visited action is, an action what is below."""
        puct = self.maths.selection == PUCT
        node.visits += 1
        for action in reversed(path):
            visits = action.visits = action.visits + 1
            action.weight = action.prior / (1 + visits) if puct else 1 / sqrt(visits)
            node = action.owner
            node.visits += 1
            if action.status != OPEN or node.status != OPEN:
                continue
            one = action.one
            value = action.value = one.value if one else action_value(self.maths, action)
            best = node.best
            if best is action or best is None or visits > best.visits or is_more_visited(action, best):
                node.best, node.value = action, value

    def is_dead_end(self, node: GoalNode) -> bool:
        """True if a goal without a way on will never have one.  Looked at once until more runs dry."""
        if node.checked == self.shrunk:
            return False
        node.checked = self.shrunk
        buried = mark_cyclic_dead(self.maths, node)
        self.shrunk += buried
        return buried
