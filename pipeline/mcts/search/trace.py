"""Trace of a search: a record for each iteration, as `trace.schema.json` beside this module says, and their sum."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.mcts.search.nodes import OPEN, SOLVED, STATUS_WORDS, Action, GoalNode
from pipeline.mcts.search.records import Expand, ExpandOutcome, TacticAttempt
from pipeline.mcts.search.tree import SearchTree, Selection

EXPANDED, NO_EXPANSION, NO_GOAL, ABORT = "expanded", "no_expansion", "no_goal", "abort"
BLOCKED, DELAYED, TERMINAL, DEAD_NODE = "blocked", "delayed", "terminal_node", "dead_node"

Note = Callable[[Mapping[str, Any]], object]


class Turn(NamedTuple):
    """An iteration that is over.  `landed`: for each attempt its action, or None; `tactics` where none was answered."""

    iteration: int
    agent: int
    reason: str
    path: tuple[int, ...]
    node: GoalNode
    attempts: Sequence[TacticAttempt] = ()
    landed: Sequence[Action | None] = ()
    backed_up: bool = False
    block: Mapping[str, Any] | None = None
    delay: Mapping[str, Any] | None = None
    reroute: Mapping[str, Any] | None = None
    tactics: Sequence[str] = ()


def landed_turn(tree: SearchTree, expand: Expand, selection: Selection, outcome: ExpandOutcome) -> Turn:
    """Enter the outcome into the tree, and back it up; the turn that this ends."""
    path, node, _ = selection
    settled = node.status != OPEN
    landed = tree.land(node, expand.tactics, outcome)
    tree.backup(path, node)
    reason = EXPANDED if any(action is not None for action in landed) else NO_EXPANSION
    reason = TERMINAL if settled else NO_GOAL if outcome.no_goal else reason
    return Turn(expand.iteration, expand.agent, reason, expand.path, node, outcome.attempts, landed, backed_up=True)


def trace_record(tree: SearchTree, turn: Turn, inflight: int = 0, aborted: int = 0) -> dict[str, Any]:
    """Record of a turn in the trace; the tree is as it was afterwards."""
    return {
        "event": "abort" if turn.reason == ABORT else "iteration",
        "iteration": turn.iteration,
        "reason": turn.reason,
        "agent_id": turn.agent,
        "selected_path": list(turn.path),
        "node": _node_record(turn.node),
        "tactics": [attempt.tactic for attempt in turn.attempts] or list(turn.tactics),
        "attempts": [_attempt_record(*pair) for pair in zip(turn.attempts, turn.landed, strict=True)],
        "expanded": sum(action is not None for action in turn.landed),
        "terminal_reached": any(action is not None and action.status == SOLVED for action in turn.landed),
        "backprop_success": turn.backed_up,
        "tree": {"nodes": len(tree.nodes), "expansions": tree.expansions, "max_depth": tree.depth}
        | {"solved": tree.root.status == SOLVED, "aborted": aborted, "inflight": inflight},
        "block": turn.block,
        "delay": turn.delay,
        "reroute": turn.reroute,
    }


def _node_record(node: GoalNode) -> dict[str, Any]:
    return {
        "id": node.number,
        "key": node.key,
        "names": node.names,
        "depth": node.depth,
        "visits": node.visits,
        "value": round(node.value, 9),
        "status": STATUS_WORDS[node.status],
        "moves": None if node.tactics is None else len(node.tactics),
        "untried": len(node.untried),
        "live": sum(action.status == OPEN for action in node.live),
    }


def _attempt_record(attempt: TacticAttempt, action: Action | None) -> dict[str, Any]:
    if action is None:
        return {"tactic": attempt.tactic, "applied": False, "error": attempt.error, "goals": [], "dead": None}
    goals = [child.number for child in action.children]
    return {"tactic": attempt.tactic, "applied": True, "error": None, "goals": goals, "dead": action.why or None}


def trace_line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class TraceTally:
    """Sum of a trace.  `calls` are those that were answered; `idle`: iterations whose agent had nothing to do."""

    def __init__(self) -> None:
        self.reasons = Counter[str]()
        self.iterations = self.calls = self.idle = 0
        self.tree: Mapping[str, Any] = {}
        self.solved_at: int | None = None

    def add_iteration(self, record: Mapping[str, Any]) -> None:
        self.reasons[record["reason"]] += 1
        self.iterations = max(self.iterations, record["iteration"])
        self.calls += len(record["attempts"])
        self.idle += record["reason"] == NO_EXPANSION and not record["attempts"]
        self.tree = record["tree"]
        if self.solved_at is None and self.tree["solved"]:
            self.solved_at = self.iterations

    def as_record(self, spent: int) -> dict[str, Any]:
        """A proof took all calls that were spent: none is begun when it is there."""
        tree = {name: self.tree.get(name, 0) for name in ("nodes", "expansions", "max_depth", "aborted")}
        counted = {"iterations": self.iterations, "calls": spent, "idle": self.idle}
        reasons = dict(sorted(self.reasons.items()))
        to_proof = None if self.solved_at is None else {"iterations": self.solved_at, "calls": spent}
        return {**tree, **counted, "reasons": reasons, "to_proof": to_proof}
