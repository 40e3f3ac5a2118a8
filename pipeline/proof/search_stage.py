"""Stages that search: `prove` for every goal of the bank, `pursue` for open goals of the ledger.

Each attempt is in the ledger as soon as it has ended. `pursue` is behind `coppice bg`: ever larger budgets, for as
long as there is time, in rounds over all goals.

A sample is one of several independent attempts to prove the same goal; the first keeps the goal's own name and is what
a search without samples would be."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pipeline.core.text import duration
from pipeline.goals.bank import Goal, bank_from_json
from pipeline.lean.backends.table import open_lean
from pipeline.lean.model import Lean
from pipeline.ledger.sqlite.ledger import Ledger
from pipeline.machine.job import Job, input_path, output_path
from pipeline.machine.process import BuildStopping
from pipeline.proof import records
from pipeline.proof.records import AttemptRecord, Sample, SampleRecord, SearchRecord
from pipeline.proof.run.attempt import FinishedAttempt, Worker
from pipeline.proof.run.engine import SearchProgress, SearchResult, SearchSite, SearchTask, search_goals
from pipeline.proof.schedule.records import EXHAUSTED, RAISED, SOLVED, GoalOutcome, ScheduleRules, Strategy
from pipeline.proof.spec.model import Pace, SearchSettings
from pipeline.proof.workers.table import make_workers, sample_workers
from pipeline.store.records import Record, load, save, save_lines

STATUS_WORDS = {SOLVED: records.PROVED, EXHAUSTED: records.OPEN}


def prove_bank(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    settings, pace = SearchSettings(**params["search"]), Pace(**limits["pace"])
    goals = bank_from_json(load(input_path(job, "bank.json"))).goals
    samples = [Sample(goal, n) for goal in goals for n in range(settings.samples)]
    begun, started = time.monotonic(), time.time()
    with (
        Ledger(limits["ledger"]) as ledger,
        closing(open_lean(job)) as lean,
        open(output_path(job, "journal.jsonl"), "w", encoding="utf-8") as journal,
    ):
        place = SearchSite(lean, limits["lean"]["processes"], ledger, job.processes, job.target.run)
        wanted = SearchTask(
            goals=[replace(sample.goal, id=sample.name) for sample in samples],
            rules=schedule_rules(settings, pace),
            workers=_sample_workers(settings, params, lean, samples),
            config=config_key(params["codes"], samples, settings.seed),
            use_cache=settings.tactic_cache and settings.samples == 1,
            deadline=settings.timeout,
        )
        found = search_goals(
            place, wanted, lambda line: print(line, file=journal), progress_reporter(job, len(samples))
        )
        version = lean.version
    if job.processes.stopping:
        raise BuildStopping
    save_lines(output_path(job, "proofs.jsonl"), (each.as_json() for each in _sample_records(samples, found)))
    record = SearchRecord(
        timestamp=_utc_stamp(time.time()),
        started=_utc_stamp(started),
        seconds=round(time.monotonic() - begun, 3),
        stopped=found.stopped,
        samples=settings.samples,
        strategies=tuple(settings.strategies),
        toolchain=version,
        config=config_record(settings, pace, limits["profile"]),
    )
    save(output_path(job, "search.json"), record._asdict())


def schedule_rules(settings: SearchSettings, pace: Pace) -> ScheduleRules:
    return ScheduleRules(
        strategies=tuple(Strategy(name, timeout) for name, timeout in settings.strategies.items()),
        bandit=settings.bandit,
        speculate=settings.speculation,
        levels=settings.levels,
        factor=settings.level_factor,
        light=pace.max_light,
        heavy=pace.max_heavy,
        threshold=settings.escalate_threshold,
        cpu_target=pace.cpu_target,
    )


def _sample_workers(
    settings: SearchSettings, params: Mapping[str, Any], lean: Lean, samples: Sequence[Sample]
) -> Mapping[str, Worker]:
    numbers = range(settings.samples)
    each = {n: make_workers(settings.strategies, params, lean, sample_seed(n, settings.seed)) for n in numbers}
    return sample_workers(each, {sample.name: sample.number for sample in samples})


def sample_seed(sample: int, seed: int) -> str:
    """Seed of a sample; none for the first, which is what a search without samples is."""
    return f"sample {sample} seed {seed}" if sample else ""


def config_key(codes: Mapping[str, str], samples: Sequence[Sample], seed: int) -> Callable[[Goal, str], str]:
    """A further sample of a goal is another attempt, though all else is the same."""
    seeds = {sample.name: sample_seed(sample.number, seed) for sample in samples}
    return lambda goal, strategy: f"{codes[strategy]} {seeds[goal.id]}".rstrip()


def config_record(settings: SearchSettings, pace: Pace, profile: int | None) -> Record:
    """Settings of the search, for results."""
    return {
        "timeout": settings.timeout,
        "max_heavy": pace.max_heavy,
        "max_light": pace.max_light,
        "cpu_target": pace.cpu_target,
        "profile": profile,
        "bandit": settings.bandit,
        "speculation": settings.speculation,
        "levels": settings.levels,
        "level_factor": settings.level_factor,
        "escalate_threshold": settings.escalate_threshold,
        "tactic_cache": settings.tactic_cache,
        "seed": settings.seed,
    }


def progress_reporter(job: Job, total: int) -> Callable[[SearchProgress], None]:
    """Reporter of the progress, after each trial."""

    def tell(now: SearchProgress) -> None:
        over = now.solved + now.exhausted
        job.say(f"{over} of {total}, {now.solved} proved; {_last_trial(now)}")

    return tell


def _last_trial(now: SearchProgress) -> str:
    how = "recalled" if now.recalled else duration(now.outcome.seconds)
    return f"{now.trial.goal} {now.outcome.status} by {now.trial.strategy} ({how})"


def _sample_records(samples: Sequence[Sample], found: SearchResult) -> Iterator[SampleRecord]:
    for sample, standing in zip(samples, found.outcomes, strict=True):
        yield sample_record(sample, standing, found.attempts.get(sample.name, []))


def sample_record(sample: Sample, standing: GoalOutcome, tried: Sequence[FinishedAttempt]) -> SampleRecord:
    by = standing.by
    until = next((n for n, each in enumerate(tried, 1) if by and each.trial.number == by.number), len(tried))
    won = tried[until - 1].result if by else None
    return SampleRecord(
        of=sample,
        status=STATUS_WORDS.get(standing.status, records.FRONTIER),
        strategy=by.strategy if by else "",
        level=by.level if by else standing.level,
        tactics=won.tactics if won else (),
        seconds=round(sum(each.result.time_seconds for each in tried[:until]), 6),
        attempts=tuple(map(_attempt_record, tried)),
        why="" if won else next((each.result.error for each in reversed(tried)), "never tried"),
    )


def _attempt_record(tried: FinishedAttempt) -> AttemptRecord:
    trial, result = tried.trial, tried.result
    return AttemptRecord(
        strategy=trial.strategy,
        level=trial.level,
        budget=trial.budget,
        success=result.success,
        seconds=round(result.time_seconds, 6),
        error=result.error,
        recalled=tried.recalled,
        raised=RAISED in result.metadata,
    )


def _utc_stamp(seconds: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))


def pursue_open_goals(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    settings = SearchSettings(**params["search"])
    begun = time.monotonic()
    with Ledger(limits["ledger"]) as ledger, closing(open_lean(job)) as lean, open(os.devnull, "w") as nowhere:
        goals = _open_goals(job, ledger)
        wanted = SearchTask(
            goals=goals,
            rules=replace(schedule_rules(settings, Pace(**limits["pace"])), rounds=True),
            workers=make_workers(settings.strategies, params, lean),
            config=lambda goal, strategy: params["codes"][strategy],
            use_cache=settings.tactic_cache,
            deadline=settings.timeout,
        )
        place = SearchSite(lean, limits["lean"]["processes"], ledger, job.processes, job.target.run)
        found = search_goals(place, wanted, nowhere.write, progress_reporter(job, len(goals)))
    if job.processes.stopping:
        raise BuildStopping
    proved = [standing.goal.id for standing in found.outcomes if standing.status == SOLVED]
    record = {"goals": len(goals), "proved": proved, "stopped": found.stopped}
    save(output_path(job, "pursue.json"), {**record, "seconds": round(time.monotonic() - begun, 3)})


def _open_goals(job: Job, ledger: Ledger) -> Sequence[Goal]:
    """Open goals of the bank, if one is named; otherwise all open goals of the ledger."""
    if "bank.json" in job.reads:
        goals = bank_from_json(load(input_path(job, "bank.json"))).goals
        ledger.add_goals(goals).result()
        open_ = {each.goal.key for each in ledger.frontier()}
        return [goal for goal in goals if goal.key in open_]
    found = [each.goal for each in ledger.frontier()]
    counts = Counter(goal.id for goal in found)  # banks may use the same names for different goals
    return [replace(goal, id=f"{goal.id} {goal.key[:8]}") if counts[goal.id] > 1 else goal for goal in found]
