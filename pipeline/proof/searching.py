"""One search for proofs: goals, a Lean, a ledger; the schedule decides, and what comes of it is recorded.

It runs in an event loop of its own, within the thread of whoever asks for it, and ends when the build is stopped."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.banks.records import theorem_of
from pipeline.edge.lean.model import Lean
from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.load import read as load_per_cpu
from pipeline.edge.process import Processes
from pipeline.goals.model import Goal
from pipeline.proof.attempting import Check, Checked, Worker
from pipeline.proof.journal import Journalled
from pipeline.proof.keeping import Keeping, Tried, known
from pipeline.proof.model import Result
from pipeline.proof.running import Means, Progress, run
from pipeline.proof.threaded import threaded
from pipeline.proof.trials import CACHE, Rules, Standing

Clock = Callable[[], float]


@dataclass(frozen=True)
class Place:
    """Where a search happens: the Lean it asks, how many of its processes, where attempts are kept, who starts them."""

    lean: Lean
    processes: int
    ledger: Ledger
    starter: Processes
    run: str


@dataclass(frozen=True)
class Wanted:
    """What is searched, and by which rules.  `config`: what of a strategy decides its attempts at a goal, in a word.

    `deadline`: seconds for all of it."""

    goals: Sequence[Goal]
    rules: Rules
    workers: Mapping[str, Worker]
    config: Callable[[Goal, str], str]
    use_cache: bool
    deadline: float | None


@dataclass(frozen=True)
class Found:
    """How each goal stands, and the attempts that were made at it.  `stopped`: why before the end, if so."""

    standings: Sequence[Standing]
    tried: Mapping[str, Sequence[Tried]]
    stopped: str


def search(
    place: Place,
    wanted: Wanted,
    journal: Callable[[str], object],
    say: Callable[[Progress], None],
    clock: Clock = time.monotonic,
) -> Found:
    place.ledger.add_goals([*map(known, wanted.goals)]).result()
    keeping = Keeping(place.ledger, place.starter, wanted.config, place.lean.version, place.run)
    journalled = Journalled(wanted.rules, journal)
    for goal in wanted.goals:
        kept = keeping.kept(goal, wanted.rules)
        # a proof of this very search is recalled with what it took; the cache would only do it again
        cached = _rate(place.ledger, goal) if wanted.use_cache and not any(kept.values()) else None
        journalled.add(goal, cached, kept)
    means = Means(
        workers={**wanted.workers, CACHE: _from_cache(place.ledger)},
        check=_check(place.lean, clock),
        attempts=keeping,
        processes=place.processes,
        load=None if wanted.rules.cpu_target is None else load_per_cpu,
        on_progress=say,
    )
    standings = asyncio.run(_until_stopped(place.starter, journalled, wanted, means))
    return Found(standings, keeping.tried, journalled.schedule.stopped)


async def _until_stopped(starter: Processes, journalled: Journalled, wanted: Wanted, means: Means) -> list[Standing]:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with starter.waking(lambda: loop.call_soon_threadsafe(stop.set)):
        return await run(journalled, wanted.goals, means, wanted.deadline, stop)


def _rate(ledger: Ledger, goal: Goal) -> float | None:
    """How often that held which may be tried before all else; the rules say from when on it is."""
    cached = ledger.get_cached_tactics(goal.key)
    return cached.success_rate if cached else None


def _from_cache(ledger: Ledger) -> Worker:
    async def run_cache(goal: Goal, _timeout: float) -> Result:
        """What proved the goal before; that it still does is for the check to say."""
        cached = ledger.get_cached_tactics(goal.key)
        assert cached is not None
        return Result(True, CACHE, cached.tactics)

    return run_cache


def _check(lean: Lean, clock: Clock) -> Check:
    async def check(goal: Goal, result: Result) -> Checked:
        stop, begun = threading.Event(), list[float]()

        def timed() -> Checked:
            wrong = lean.check(theorem_of(goal), result.tactics, stop, lambda: begun.append(clock()))
            return Checked(f"{wrong.kind}: {wrong.error}" if wrong else "", clock() - begun[-1] if begun else 0.0)

        return await threaded(timed, stop.set)

    return check
