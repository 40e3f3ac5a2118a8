"""A line for each iteration: who, where, what was tried, what came of it.  `trace.schema.json` says which fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.mcts.model import Attempt, Expand, Outcome
from pipeline.mcts.nodes import OPEN, SOLVED, WORDS, Action, Node
from pipeline.mcts.tree import Tree

EXPANDED, NO_EXPANSION, NO_GOAL, ABORT = "expanded", "no_expansion", "no_goal", "abort"
BLOCKED, DELAYED, TERMINAL, DEAD_NODE = "blocked", "delayed", "terminal_node", "dead_node"

Note = Callable[[Mapping[str, Any]], object]


class Turn(NamedTuple):
    """An iteration that is over.  `landed`: for each attempt its action, or None."""

    iteration: int
    agent: int
    reason: str
    path: tuple[int, ...]
    node: Node
    tactics: Sequence[str] = ()
    attempts: Sequence[Attempt] = ()
    landed: Sequence[Action | None] = ()
    backed_up: bool = False
    block: Mapping[str, Any] | None = None
    delay: Mapping[str, Any] | None = None
    reroute: Mapping[str, Any] | None = None


def told(tree: Tree, turn: Turn, inflight: int = 0, aborted: int = 0) -> dict[str, Any]:
    """As it is in the trace; the tree is as it was afterwards."""
    return {
        "event": "abort" if turn.reason == ABORT else "iteration",
        "iteration": turn.iteration,
        "reason": turn.reason,
        "agent_id": turn.agent,
        "selected_path": list(turn.path),
        "node": _node(turn.node),
        "tactics": list(turn.tactics),
        "attempts": [_attempt(*pair) for pair in zip(turn.attempts, turn.landed, strict=True)],
        "expanded": sum(action is not None for action in turn.landed),
        "terminal_reached": any(action is not None and action.status == SOLVED for action in turn.landed),
        "backprop_success": turn.backed_up,
        "tree": _tree(tree) | {"aborted": aborted, "inflight": inflight},
        "block": turn.block,
        "delay": turn.delay,
        "reroute": turn.reroute,
    }


def _tree(tree: Tree) -> dict[str, Any]:
    told = {"nodes": len(tree.nodes), "expansions": tree.expansions, "max_depth": tree.depth}
    return told | {"solved": tree.root.status == SOLVED}


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": node.number,
        "key": node.key,
        "names": node.names,
        "depth": node.depth,
        "visits": node.visits,
        "value": round(node.value, 9),
        "status": WORDS[node.status],
        "moves": None if node.tactics is None else len(node.tactics),
        "untried": len(node.untried),
        "live": sum(action.status == OPEN for action in node.live),
    }


def _attempt(attempt: Attempt, action: Action | None) -> dict[str, Any]:
    if action is None:
        return {"tactic": attempt.tactic, "applied": False, "error": attempt.error, "goals": [], "dead": None}
    goals = [child.number for child in action.children]
    return {"tactic": attempt.tactic, "applied": True, "error": None, "goals": goals, "dead": action.why or None}


def reason_of(landed: Sequence[Action | None], no_goal: bool, settled: bool = False) -> str:
    """Why an iteration that was answered ended as it did; `settled`: its goal was when the answer came."""
    if settled:
        return TERMINAL
    if no_goal:
        return NO_GOAL
    return EXPANDED if any(action is not None for action in landed) else NO_EXPANSION


def aborted(expand: Expand, node: Node, early: Outcome | None = None) -> Turn:
    """`early`: an answer that is there, and will not be heard."""
    tactics = [attempt.tactic for attempt in early.attempts] if early else expand.tactics
    return Turn(expand.iteration, expand.agent, ABORT, expand.path, node, tactics)


def line(told: Mapping[str, Any]) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
