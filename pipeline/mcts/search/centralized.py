"""Policy of one controller: select, expand, back up, one iteration after another."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.mcts.search.nodes import OPEN
from pipeline.mcts.search.records import FIRST_SUCCESS, Expand, ExpandOutcome, SearchRules, Subgoal
from pipeline.mcts.search.trace import DEAD_NODE, NO_EXPANSION, Note, Turn, reason_for, trace_record
from pipeline.mcts.search.tree import SearchTree, Selection


class ExpandInFlight(NamedTuple):
    expand: Expand
    selection: Selection


class CentralizedSearch:
    """`ask` until it is None, `tell` after each.  The same answers give the same search; ties go to the earlier."""

    def __init__(self, rules: SearchRules, root: Subgoal, note: Note = lambda told: None) -> None:
        self.rules, self.note = rules, note
        self.tree = SearchTree(rules.maths, root)
        self.iterations = self.calls = self.version = 0
        self.flight: ExpandInFlight | None = None

    @property
    def is_finished(self) -> bool:
        return self.flight is None and not self._going()

    @property
    def unanswered(self) -> list[Expand]:
        return [self.flight.expand] if self.flight else []

    def _going(self) -> bool:
        budget = self.rules.budget
        left = self.iterations < budget.iterations and (budget.calls is None or self.calls < budget.calls)
        return left and self.tree.root.status == OPEN

    def ask(self) -> Expand | None:
        while self.flight is None and self._going():
            self.iterations += 1
            self.version += 1
            selection = self.tree.select()
            if selection.opens:
                self.flight = self._start(selection)
                return self.flight.expand
            self._no_way(selection)
        return None

    def _start(self, selection: Selection) -> ExpandInFlight:
        limit = self.rules.expansion.attempts
        if self.rules.budget.calls is not None:
            limit = min(limit, self.rules.budget.calls - self.calls)
        tactics = self.tree.take(selection.node, limit)
        first = self.rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, 0, selection.node.number, selection.nodes(), tactics, limit, first)
        return ExpandInFlight(expand, selection)

    def _no_way(self, selection: Selection) -> None:
        """A goal that needs one that is on the way to it: the iteration is spent, so that the next goes elsewhere."""
        node = selection.node
        reason = DEAD_NODE if self.tree.is_dead_end(node) else NO_EXPANSION
        self.tree.backup(selection.path, node)
        turn = Turn(self.iterations, 0, reason, selection.nodes(), node, backed_up=True)
        self.note(trace_record(self.tree, turn))

    def tell(self, outcome: ExpandOutcome) -> None:
        flight = self.flight
        if flight is None or outcome.iteration != flight.expand.iteration:
            return  # it was not asked
        (expand, (path, node, _)), self.flight = flight, None
        self.version += 1
        self.calls += len(outcome.attempts)
        landed = self.tree.land(node, expand.tactics, outcome)
        self.tree.backup(path, node)
        reason = reason_for(landed, outcome.no_goal)
        tried = [attempt.tactic for attempt in outcome.attempts]
        turn = Turn(expand.iteration, 0, reason, expand.path, node, tried, outcome.attempts, landed, backed_up=True)
        self.note(trace_record(self.tree, turn))
