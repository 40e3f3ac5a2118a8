"""Policy of one controller: select, expand, back up, one iteration after another."""

from __future__ import annotations

from pipeline.mcts.search.nodes import OPEN
from pipeline.mcts.search.records import FIRST_SUCCESS, Expand, ExpandOutcome, SearchRules, Subgoal
from pipeline.mcts.search.trace import DEAD_NODE, NO_EXPANSION, Note, Turn, landed_turn, trace_record
from pipeline.mcts.search.tree import SearchTree, Selection


class CentralizedSearch:
    """`ask` until it is None, `tell` after each.  The same answers give the same search; ties go to the earlier."""

    def __init__(self, rules: SearchRules, root: Subgoal, note: Note = lambda record: None) -> None:
        self.rules, self.note = rules, note
        self.tree = SearchTree(rules.maths, root)
        self.iterations = self.calls = self.version = 0
        self.flight: tuple[Expand, Selection] | None = None

    @property
    def is_finished(self) -> bool:
        return self.flight is None and self._limit() <= 0

    @property
    def unanswered(self) -> list[Expand]:
        return [self.flight[0]] if self.flight else []

    def _limit(self) -> int:
        """Calls that one more iteration may take; none when the search is over."""
        budget, most = self.rules.budget, self.rules.expansion.attempts
        if self.iterations >= budget.iterations or self.tree.root.status != OPEN:
            return 0
        return most if budget.calls is None else min(most, budget.calls - self.calls)

    def ask(self) -> Expand | None:
        while self.flight is None and (limit := self._limit()) > 0:
            self.iterations += 1
            self.version += 1
            selection = self.tree.select()
            path, node, _ = selection
            if selection.opens:
                tactics = self.tree.take(node, limit)
                first = self.rules.expansion.policy == FIRST_SUCCESS
                expand = Expand(self.iterations, 0, node.number, selection.nodes(), tactics, limit, first)
                self.flight = expand, selection
                return expand
            # a goal that needs one on the way to it: the iteration is spent, so that the next goes elsewhere
            reason = DEAD_NODE if self.tree.is_dead_end(node) else NO_EXPANSION
            self.tree.backup(path, node)
            turn = Turn(self.iterations, 0, reason, selection.nodes(), node, backed_up=True)
            self.note(trace_record(self.tree, turn))
        return None

    def tell(self, outcome: ExpandOutcome) -> None:
        if self.flight is None or outcome.iteration != self.flight[0].iteration:
            return  # it was not asked
        (expand, selection), self.flight = self.flight, None
        self.version += 1
        self.calls += len(outcome.attempts)
        self.note(trace_record(self.tree, landed_turn(self.tree, expand, selection, outcome)))
