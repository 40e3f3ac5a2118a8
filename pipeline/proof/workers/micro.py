"""The worker `micro`: a small search over tactics, without a language model."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from pipeline.goals.bank import Goal
from pipeline.lean.model import (
    Lean,
    LeanError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    Session,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.proof.schedule.records import WorkerResult
from pipeline.proof.workers.best_first import BestFirstSearch, SearchOptions, TacticAnswer
from pipeline.tactics.script import as_block

NAME = "micro"
CODE = "micro 5"  # raised when the same goal may end otherwise
LEAST_SECONDS = 0.02  # seconds: with less left nothing is asked
RERUN_SECONDS = 30.0  # seconds for the whole proof once more, outside of the budget

Clock = Callable[[], float]


@dataclass
class AttemptCost:
    """Cost of an attempt: seconds of the search and of the second run of the whole proof; and by family of moves."""

    search: float = 0.0
    replay: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)


def prove_goal(
    goal: Goal,
    timeout: float,
    lean: Lean,
    options: SearchOptions | None = None,
    stop: threading.Event | None = None,
    clock: Clock = time.monotonic,
) -> WorkerResult:
    """Make one attempt in the calling thread; raise Interrupted soon after `stop` is set, even within a tactic.

    The clock starts when the goal stands in a Lean, and ends when the search does: a proof that it found later than
    `timeout` is none.  What it takes to do the whole proof once more is told apart.  What Lean does not take for a goal
    has failed."""
    try:
        session, state = lean.open(Theorem(goal.id, goal.text, tuple(goal.context)), stop)
    except NotElaborated as wrong:
        return WorkerResult(False, NAME, error=f"it does not elaborate: {wrong}")
    started = clock()
    try:
        search, spent = BestFirstSearch(state, state.goals, options), AttemptCost()
        error = run_search(search, session, started + timeout, stop or threading.Event(), clock, spent)
        spent.search = clock() - started
        script = () if error else search.script or ()
        if not script:
            error = error or "nothing more to try"
        elif spent.search > timeout:
            error = "timeout"
        elif not search.is_straight:
            error = rerun_whole(script, session, state)
            spent.replay = clock() - started - spent.search
        return worker_result(not error, script, error, search, spent)
    finally:
        session.close()


def run_search(
    search: BestFirstSearch, session: Session, deadline: float, stop: threading.Event, clock: Clock, spent: AttemptCost
) -> str:
    """Ask until the search is over; the reason if it was ended before."""
    while (ask := search.query) is not None:
        left = deadline - clock()
        if stop.is_set() or left < LEAST_SECONDS:
            return "stopped" if stop.is_set() else "timeout"
        begun = clock()
        answer = as_answer(session.run_tac(ask.state, ask.tactic, min(ask.budget, left)))
        spent.seconds[ask.family] += clock() - begun
        spent.calls[ask.family] += 1
        search.learn(answer)
    return ""


def as_answer(result: TacticResult) -> TacticAnswer:
    if isinstance(result, LeanError):
        return TacticAnswer(failure="timeout" if result.kind == "heartbeats" else result.kind)
    if isinstance(result, ProofGivenUp):
        return TacticAnswer(failure="given up")
    return TacticAnswer(result, result.goals if isinstance(result, TacticState) else ())


def rerun_whole(script: tuple[str, ...], session: Session, state: TacticState) -> str:
    """Run the whole script; why it is no proof, if so: goals that print alike need not be the same."""
    result = session.run_tac(state, as_block(script), RERUN_SECONDS)
    why = result.error if isinstance(result, LeanError) else result
    return "" if isinstance(result, ProofFinished) else f"the script does not hold as a whole: {why}"


def worker_result(
    success: bool, script: tuple[str, ...], error: str, search: BestFirstSearch, spent: AttemptCost
) -> WorkerResult:
    metadata = {
        "calls": sum(spent.calls.values()),
        "nodes": len(search.shared),
        "lean_seconds": round(sum(spent.seconds.values()), 3),
        "replay_seconds": round(spent.replay, 3),
        "families": list(search.families) if success else [],
        "seconds_by_family": {name: round(one, 3) for name, one in sorted(spent.seconds.items()) if name},
    }
    return WorkerResult(success, NAME, script if success else (), spent.search, error=error, metadata=metadata)


def worker_on(lean: Lean, options: SearchOptions | None = None) -> Callable[[Goal, float], Awaitable[WorkerResult]]:
    """Make the worker of a Lean: `run_micro(goal, timeout)`."""
    return partial(run_micro, lean=lean, options=options)


async def run_micro(
    goal: Goal, timeout: float, lean: Lean | None = None, options: SearchOptions | None = None
) -> WorkerResult:
    """Make one attempt at a goal.  Without a Lean, one with the core library is started, and ended with the attempt;
    `pipeline.lean.backends.table.open_core_lean` has one for many.

    It raises only faults that say nothing of the goal: there is no Lean, or it is killed."""
    from pipeline.lean.backends.table import open_core_lean
    from pipeline.proof.run.attempt import run_in_thread

    stop = threading.Event()
    with nullcontext(lean) if lean else open_core_lean() as own:
        return await run_in_thread(lambda: prove_goal(goal, timeout, own, options, stop), stop.set)
