"""Searchers that prove goals with a Lean, each with so many tactics: what each came to, and what it cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.bank import Metered, Patient
from pipeline.lean.backends.table import proof_fault
from pipeline.lean.model import Interrupted, LeanCrash, Session, TacticState, Theorem
from pipeline.mcts.run import Evaluator, drive_search, found_script
from pipeline.mcts.search.agents import UNOBSERVED, VIRTUAL_LOSS, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.guides import Guide
from pipeline.mcts.search.journal import SearchJournal, SearchStart
from pipeline.mcts.search.nodes import STATUS_WORDS
from pipeline.mcts.search.records import Budget, Expand, ExpandOutcome, Expansion, SearchRules
from pipeline.proof.workers import micro
from pipeline.proof.workers.best_first import BestFirstSearch

IDLE = 50  # iterations to each tactic, since an agent may find nothing to do
COUNTINGS = {"vl": VIRTUAL_LOSS, "wu": UNOBSERVED}


class How(NamedTuple):
    """`attempts`: tactics of an iteration; `inflight`: of a goal at once; `seconds`: of CPU, for a search."""

    calls: int
    attempts: int
    inflight: int
    seconds: float
    guide: Guide


@dataclass
class Row:
    """`calls`: tactics up to the proof or in all.  CPU seconds: `all`, with Lean; for the tree's maths; of Python."""

    goal: str
    searcher: str
    solved: bool = False
    status: str = "open"
    calls: int = 0
    all: float = 0.0
    tree: float = 0.0
    python: float = 0.0
    script: tuple[str, ...] = ()
    error: str = ""


class Deadline:
    """By the CPU, so that a busy machine cuts nothing short."""

    def __init__(self, meter: Metered, seconds: float) -> None:
        self.meter, self.until = meter, meter.seconds() + seconds

    def is_set(self) -> bool:
        return self.meter.seconds() > self.until


class Timed:
    """A policy, and the CPU seconds that are spent in it."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.seconds = policy, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def ask(self) -> Expand | None:
        return self._timed(self.policy.ask)

    def tell(self, outcome: ExpandOutcome) -> None:
        self._timed(self.policy.tell, outcome)

    def _timed(self, do: Callable[..., Any], *args: Any) -> Any:
        begun = time.thread_time()
        try:
            return do(*args)
        finally:
            self.seconds += time.thread_time() - begun


def searched(row: Row, theorem: Theorem, lean: Patient, how: How) -> Row:
    """By the searcher that the row names; a proof counts when it holds as a whole."""
    meter = lean.meter
    stop = Deadline(meter, how.seconds)
    begun, python = meter.seconds(), time.process_time()
    try:
        session, start = lean.open(theorem, stop)
        with closing(session):
            begun, python = meter.seconds(), time.process_time()  # a process may have had to start
            SEARCHERS[row.searcher.split()[0]](row, session, start, how)
    except (Interrupted, LeanCrash) as error:
        row.error = type(error).__name__
    row.all, row.python = round(meter.seconds() - begun, 3), round(time.process_time() - python, 3)
    if row.script:
        row.error = proof_fault(lean, theorem, row.script)
        row.solved = not row.error
    return row


def by_micro(row: Row, session: Session, start: TacticState, how: How) -> None:
    """Asks without a family bring a goal to the front, and do not count."""
    search, calls = BestFirstSearch(start, start.goals), Counter[bool]()
    while (ask := search.query) is not None and calls[True] < how.calls:
        search.learn(micro.as_answer(session.run_tac(ask.state, ask.tactic, ask.budget)))
        calls[bool(ask.family)] += 1
        row.calls = calls[True]
    row.script = search.script or ()
    row.status = "solved" if row.script else "open" if ask else "dead"


def by_mcts(row: Row, session: Session, start: TacticState, how: How) -> None:
    trying = Evaluator(session, start, how.guide)
    journalled = SearchJournal(SearchStart(rules(row.searcher, how), trying.root()), lambda line: None)
    journalled.policy = timed = Timed(journalled.policy)
    try:
        drive_search(journalled, lambda tree, waiting: trying.answer(tree, waiting[0]))
    finally:
        row.calls, row.tree = trying.calls.tactics, round(timed.seconds, 4)
    row.status = STATUS_WORDS[timed.tree.root.status]
    row.script = found_script(timed.tree, trying)


def rules(searcher: str, how: How) -> SearchRules | TeamRules:
    """`centralized`, or such as `vl 4`."""
    rules = SearchRules(Budget(IDLE * how.calls, how.calls), expansion=Expansion(attempts=how.attempts))
    counting, *agents = searcher.split()
    return TeamRules(rules, ReservationRules(int(agents[0]), how.inflight, COUNTINGS[counting])) if agents else rules


SEARCHERS: Mapping[str, Callable[[Row, Session, TacticState, How], None]] = {
    "micro": by_micro,
    "centralized": by_mcts,
    **dict.fromkeys(COUNTINGS, by_mcts),
}


def named(agents: Sequence[int]) -> list[str]:
    """All of them; of one agent no reservation counts, so that one stands for both."""
    teams = [f"{counting} {number}" for number in agents for counting in (COUNTINGS if number > 1 else ["vl"])]
    return ["micro", "centralized", *teams]
