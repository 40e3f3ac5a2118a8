"""One controller: select, try, back up, one iteration after another."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.mcts.model import FIRST_SUCCESS, Expand, Outcome, Rules, Subgoal
from pipeline.mcts.nodes import OPEN
from pipeline.mcts.trace import DEAD_NODE, NO_EXPANSION, Note, Turn, reason_of, told
from pipeline.mcts.tree import Selection, Tree


class Flight(NamedTuple):
    expand: Expand
    selection: Selection


class Centralized:
    """`ask` until it is None, `tell` after each.  The same answers give the same search; ties go to the earlier."""

    def __init__(self, rules: Rules, root: Subgoal, note: Note = lambda told: None) -> None:
        self.rules, self.note = rules, note
        self.tree = Tree(rules.maths, root)
        self.iterations = self.calls = self.version = 0
        self.flight: Flight | None = None

    @property
    def finished(self) -> bool:
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

    def _start(self, selection: Selection) -> Flight:
        limit = self.rules.expansion.attempts
        if self.rules.budget.calls is not None:
            limit = min(limit, self.rules.budget.calls - self.calls)
        tactics = self.tree.take(selection.node, limit)
        first = self.rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, 0, selection.node.number, selection.nodes(), tactics, limit, first)
        return Flight(expand, selection)

    def _no_way(self, selection: Selection) -> None:
        """A goal that needs one that is on the way to it: the iteration is spent, so that the next goes elsewhere."""
        node = selection.node
        reason = DEAD_NODE if self.tree.dead_end(node) else NO_EXPANSION
        self.tree.backup(selection.path, node)
        turn = Turn(self.iterations, 0, reason, selection.nodes(), node, backed_up=True)
        self.note(told(self.tree, turn))

    def tell(self, outcome: Outcome) -> None:
        flight = self.flight
        if flight is None or outcome.iteration != flight.expand.iteration:
            return  # it was not asked
        (expand, (path, node, _)), self.flight = flight, None
        self.version += 1
        self.calls += len(outcome.attempts)
        landed = self.tree.land(node, expand.tactics, outcome)
        self.tree.backup(path, node)
        reason = reason_of(landed, outcome.no_goal)
        tried = [attempt.tactic for attempt in outcome.attempts]
        turn = Turn(expand.iteration, 0, reason, expand.path, node, tried, outcome.attempts, landed, backed_up=True)
        self.note(told(self.tree, turn))
