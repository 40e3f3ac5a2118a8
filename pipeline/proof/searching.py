"""One search for proofs: goals, a Lean, a ledger; the schedule decides, and what comes of it is recorded.

It runs in an event loop of its own, within the thread of whoever asks for it, and ends when the build is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.ledger.model import WORTH_TRYING, KnownGoal, hash_goal
from pipeline.edge.lean.model import Lean
from pipeline.edge.load import read as load_per_cpu
from pipeline.edge.process import Processes
from pipeline.goals.model import Goal
from pipeline.proof.attempting import Worker
from pipeline.proof.journal import Journalled
from pipeline.proof.keeping import Keeping
from pipeline.proof.model import Result
from pipeline.proof.records import theorem_of
from pipeline.proof.running import Means, Progress, run
from pipeline.proof.threaded import threaded
from pipeline.proof.trials import CACHE, Rules, Standing


@dataclass(frozen=True)
class Place:
    """Where a search happens: the Lean it asks, how many of its processes, where attempts are kept, who starts them."""

    lean: Lean
    processes: int
    ledger: Ledger
    starter: Processes
    run: str


@dataclass(frozen=True)
class Found:
    """How each goal stands, and the attempts that were made at it."""

    standings: Sequence[Standing]
    keeping: Keeping


def search(
    place: Place,
    goals: Sequence[Goal],
    rules: Rules,
    workers: Mapping[str, Worker],
    configs: Mapping[str, str],
    *,
    use_cache: bool,
    deadline: float | None,
    journal: Callable[[str], None],
    say: Callable[[Progress], None],
) -> Found:
    place.ledger.add_goals([*map(known, goals)]).result()
    keeping = Keeping(place.ledger, place.starter, configs, place.lean.version, place.run)
    journalled = Journalled(rules, journal)
    for goal in goals:
        journalled.add(goal, _rate(place.ledger, goal) if use_cache else None)
    every = {**workers, CACHE: _from_cache(place.ledger)}
    means = Means(every, _check(place.lean), keeping, place.processes, _nothing, load_per_cpu, say)
    return Found(asyncio.run(_until_stopped(place.starter, journalled, goals, means, deadline)), keeping)


async def _until_stopped(
    starter: Processes, journalled: Journalled, goals: Sequence[Goal], means: Means, deadline: float | None
) -> list[Standing]:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with starter.waking(lambda: loop.call_soon_threadsafe(stop.set)):
        return await run(journalled, goals, means, deadline, stop)


def known(goal: Goal) -> KnownGoal:
    return KnownGoal(goal.key or hash_goal(goal.text), goal.text, goal.context, goal.id, goal.difficulty, goal.priority)


def _nothing() -> None:
    """The journal is an output: it is synced when it is whole."""


def _rate(ledger: Ledger, goal: Goal) -> float | None:
    """How often that held which is to be tried before all else."""
    cached = ledger.get_cached_tactics(goal.key)
    return cached.success_rate if cached and cached.success_rate > WORTH_TRYING else None


def _from_cache(ledger: Ledger) -> Worker:
    async def run_cache(goal: Goal, _timeout: float) -> Result:
        """What proved the goal before; that it still does is for the check to say."""
        cached = ledger.get_cached_tactics(goal.key)
        assert cached is not None
        return Result(True, CACHE, cached.tactics)

    return run_cache


def _check(lean: Lean) -> Callable[[Goal, Result], object]:
    async def check(goal: Goal, result: Result) -> str:
        wrong = await threaded(lambda: lean.check(theorem_of(goal), result.tactics), lambda: None)
        return f"{wrong.kind}: {wrong.error}" if wrong else ""

    return check
