"""Policies over one tree: what all have in common, and that of one controller.

The controller selects, expands and backs up, one iteration after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.mcts.search.nodes import OPEN
from pipeline.mcts.search.records import FIRST_SUCCESS, Expand, ExpandOutcome, SearchRules, Subgoal
from pipeline.mcts.search.trace import DEAD_NODE, EXPANDED, NO_EXPANSION, NO_GOAL, TERMINAL, Note, Turn, trace_record
from pipeline.mcts.search.tree import SearchTree, Selection


class ExpandInFlight(NamedTuple):
    expand: Expand
    selection: Selection
    reroute: Mapping[str, Any] | None = None


class TreePolicy:
    """`ask` until it is None, `tell` after each.  The same answers give the same search; ties go to the earlier.

    `reserved`: calls of the budget that are promised to what is in flight."""

    def __init__(self, rules: SearchRules, root: Subgoal, note: Note = lambda record: None) -> None:
        self.rules, self.note = rules, note
        self.tree = SearchTree(rules.maths, root)
        self.flights: dict[int, ExpandInFlight] = {}  # by iteration
        self.iterations = self.calls = self.reserved = self.version = self.aborted = 0

    @property
    def is_over(self) -> bool:
        return self.tree.root.status != OPEN

    @property
    def may_start(self) -> bool:
        return self.iterations < self.rules.budget.iterations and not self.is_over and self._limit() > 0

    @property
    def is_finished(self) -> bool:
        return not self.flights and not self.may_start

    @property
    def unanswered(self) -> list[Expand]:
        return [flight.expand for flight in self.flights.values()]

    def _limit(self) -> int:
        """Calls that one more iteration may take."""
        calls, most = self.rules.budget.calls, self.rules.expansion.attempts
        return most if calls is None else min(most, calls - self.calls - self.reserved)

    def _start(self, selection: Selection, agent: int = 0, reroute: Mapping[str, Any] | None = None) -> Expand:
        node, limit = selection.node, self._limit()
        tactics, first = self.tree.take(node, limit), self.rules.expansion.policy == FIRST_SUCCESS
        expand = Expand(self.iterations, agent, node.number, selection.nodes(), tactics, limit, first)
        self.flights[expand.iteration] = ExpandInFlight(expand, selection, reroute)
        self.reserved += limit
        return expand

    def _release(self, flight: ExpandInFlight) -> None:
        del self.flights[flight.expand.iteration]
        self.reserved -= flight.expand.limit

    def _land(self, flight: ExpandInFlight, outcome: ExpandOutcome) -> Turn:
        """Enter the outcome into the tree, and back it up."""
        expand, (path, node, _), reroute = flight
        settled = node.status != OPEN
        self._release(flight)
        self.version += 1
        self.calls += len(outcome.attempts)
        landed = self.tree.land(node, expand.tactics, outcome)
        self.tree.backup(path, node)
        reason = EXPANDED if any(action is not None for action in landed) else NO_EXPANSION
        reason = TERMINAL if settled else NO_GOAL if outcome.no_goal else reason
        turn = Turn(expand.iteration, expand.agent, reason, expand.path, node, outcome.attempts, landed)
        return turn._replace(backed_up=True, reroute=reroute)

    def _no_way(self, selection: Selection) -> str:
        """A goal that needs one that is on the way to it: the iteration is spent, so that the next goes elsewhere."""
        reason = DEAD_NODE if self.tree.is_dead_end(selection.node) else NO_EXPANSION
        self.tree.backup(selection.path, selection.node)
        return reason

    def _note(self, turn: Turn) -> None:
        self.note(trace_record(self.tree, turn, len(self.flights), self.aborted))


class CentralizedSearch(TreePolicy):
    def ask(self) -> Expand | None:
        while not self.flights and self.may_start:
            self.iterations += 1
            self.version += 1
            selection = self.tree.select()
            if selection.opens:
                return self._start(selection)
            reason = self._no_way(selection)
            self._note(Turn(self.iterations, 0, reason, selection.nodes(), selection.node, backed_up=True))
        return None

    def tell(self, outcome: ExpandOutcome) -> None:
        if flight := self.flights.get(outcome.iteration):  # else it was not asked
            self._note(self._land(flight, outcome))
