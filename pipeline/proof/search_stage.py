"""Stages that search: `prove` for every goal of the bank, `pursue` for open goals of the ledger.

Each attempt is in the ledger as soon as it has ended. `pursue` is behind `coppice bg`: ever larger budgets, for as
long as there is time, in rounds over all goals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pipeline.core.text import duration
from pipeline.goals.bank import Goal, bank_from_json
from pipeline.lean.backends.table import last_of_shared_lean
from pipeline.lean.model import Lean
from pipeline.machine.job import Job, input_path, output_path
from pipeline.machine.process import BuildStopping
from pipeline.proof import records
from pipeline.proof.records import AttemptRecord, Sample, SampleRecord, SearchRecord
from pipeline.proof.run.attempt import FinishedAttempt
from pipeline.proof.run.engine import SearchProgress, SearchResult, SearchSite, SearchTask, search_goals
from pipeline.proof.schedule.records import EXHAUSTED, RAISED, SOLVED, GoalOutcome, ScheduleRules, Strategy
from pipeline.proof.spec.model import Pace, SearchSettings
from pipeline.proof.workers.table import make_workers
from pipeline.store.ledger import Ledger
from pipeline.store.records import Record, load, save, save_lines

STATUS_WORDS = {SOLVED: records.PROVED, EXHAUSTED: records.OPEN}


def prove_bank(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    settings, pace = SearchSettings(**params["search"]), Pace(**limits["pace"])
    goals = bank_from_json(load(input_path(job, "bank.json"))).goals
    samples = [Sample(goal, n) for goal in goals for n in range(settings.samples)]
    seeds = {sample.name: sample_seed(sample.number, settings.seed) for sample in samples}
    begun, started = time.monotonic(), time.time()
    with (
        Ledger(limits["ledger"]) as ledger,
        last_of_shared_lean(job) as lean,
        open(output_path(job, "journal.jsonl"), "w", encoding="utf-8") as journal,
    ):
        task = SearchTask(
            goals=[replace(sample.goal, id=sample.name) for sample in samples],
            rules=schedule_rules(settings, pace),
            workers=make_workers(settings.strategies, params, lean, seeds),
            config=config_key(params["codes"], seeds),
            use_cache=settings.tactic_cache and settings.samples == 1,
            deadline=settings.timeout,
        )
        found = _search(job, lean, ledger, task, lambda line: print(line, file=journal))
        version = lean.version
    pairs = zip(samples, found.outcomes, strict=True)
    searched = (sample_record(sample, outcome, found.attempts.get(sample.name, [])) for sample, outcome in pairs)
    save_lines(output_path(job, "proofs.jsonl"), (each.as_json() for each in searched))
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


def _search(job: Job, lean: Lean, ledger: Ledger, task: SearchTask, journal: Callable[[str], object]) -> SearchResult:
    def report_progress(now: SearchProgress) -> None:
        trial, took = now.trial, "recalled" if now.recalled else duration(now.outcome.seconds)
        last = f"{trial.goal} {now.outcome.status} by {trial.strategy} ({took})"
        job.say(f"{now.ended} of {len(task.goals)}, {now.solved} proved; {last}")

    processes = job.target.params["limits"]["lean"]["processes"]
    site = SearchSite(lean, processes, ledger, job.processes, job.target.run)
    found = search_goals(site, task, journal, report_progress)
    if job.processes.stopping:
        raise BuildStopping
    return found


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


def sample_seed(sample: int, seed: int) -> str:
    """Seed of a sample; none for the first, which is what a search without samples is."""
    return f"sample {sample} seed {seed}" if sample else ""


def config_key(codes: Mapping[str, str], seeds: Mapping[str, str]) -> Callable[[Goal, str], str]:
    """A further sample of a goal is another attempt, though all else is the same."""
    return lambda goal, strategy: f"{codes[strategy]} {seeds.get(goal.id, '')}".rstrip()


def config_record(settings: SearchSettings, pace: Pace, profile: int | None) -> Record:
    """Settings of the search, for results."""
    searched = settings._asdict()
    for name in ("strategies", "samples"):  # fields of their own
        del searched[name]
    return {**searched, **pace._asdict(), "profile": profile}


def sample_record(sample: Sample, outcome: GoalOutcome, tried: Sequence[FinishedAttempt]) -> SampleRecord:
    by = outcome.by
    until = next((n for n, each in enumerate(tried, 1) if by and each.trial.number == by.number), len(tried))
    won = tried[until - 1].result if by else None
    return SampleRecord(
        of=sample,
        status=STATUS_WORDS.get(outcome.status, records.FRONTIER),
        strategy=by.strategy if by else "",
        level=by.level if by else outcome.level,
        tactics=won.tactics if won else (),
        seconds=round(sum(each.result.time_seconds for each in tried[:until]), 6),
        attempts=tuple(
            AttemptRecord(
                strategy=each.trial.strategy,
                level=each.trial.level,
                budget=each.trial.budget,
                success=each.result.success,
                seconds=round(each.result.time_seconds, 6),
                error=each.result.error,
                recalled=each.recalled,
                raised=RAISED in each.result.metadata,
            )
            for each in tried
        ),
        why="" if won else next((each.result.error for each in reversed(tried)), "never tried"),
    )


def _utc_stamp(seconds: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))


def pursue_open_goals(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    settings = SearchSettings(**params["search"])
    begun = time.monotonic()
    with Ledger(limits["ledger"]) as ledger, last_of_shared_lean(job) as lean:
        goals = _open_goals(job, ledger)
        task = SearchTask(
            goals=goals,
            rules=replace(schedule_rules(settings, Pace(**limits["pace"])), rounds=True),
            workers=make_workers(settings.strategies, params, lean, {}),
            config=config_key(params["codes"], {}),
            use_cache=settings.tactic_cache,
            deadline=settings.timeout,
        )
        found = _search(job, lean, ledger, task, lambda _: None)
    proved = [outcome.goal.id for outcome in found.outcomes if outcome.status == SOLVED]
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
