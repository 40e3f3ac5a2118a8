"""The stage that searches: every goal of the bank, each attempt in the ledger as soon as it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

from pipeline.banks.leans import opened
from pipeline.banks.records import Record, as_record, goal_of, load, save, save_lines
from pipeline.core.words import duration
from pipeline.edge.job import Job, read, written
from pipeline.edge.lean.model import Lean
from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.process import Stopping
from pipeline.goals.model import Goal
from pipeline.proof import results
from pipeline.proof.attempting import Worker
from pipeline.proof.keeping import Tried
from pipeline.proof.making import made, sampled
from pipeline.proof.model import RAISED
from pipeline.proof.running import Progress
from pipeline.proof.searching import Found, Place, Wanted, search
from pipeline.proof.settings import Pace, Search
from pipeline.proof.trials import EXHAUSTED, SOLVED, Rules, Standing, Strategy

STATUS = {SOLVED: results.PROVED, EXHAUSTED: results.OPEN}


class Sample(NamedTuple):
    """One of several attempts to prove the same goal, each from nothing; the first has the goal's own name."""

    goal: Goal
    number: int

    @property
    def name(self) -> str:
        return f"{self.goal.id}#{self.number}" if self.number else self.goal.id


def prove(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    asked, pace = Search(**params["search"]), Pace(**limits["pace"])
    goals = [goal_of(each) for each in load(read(job, "bank.json"))["goals"]]
    samples = [Sample(goal, n) for goal in goals for n in range(asked.samples)]
    begun, started = time.monotonic(), time.time()
    with (
        Ledger(limits["ledger"]) as ledger,
        closing(opened(job)) as lean,
        open(written(job, "journal.jsonl"), "w", encoding="utf-8") as journal,
    ):
        place = Place(lean, limits["lean"]["processes"], ledger, job.processes, job.target.run)
        wanted = Wanted(
            goals=[replace(sample.goal, id=sample.name) for sample in samples],
            rules=rules_of(asked, pace),
            workers=_workers(asked, params, lean, samples),
            config=config_of(params["codes"], samples, asked.seed),
            use_cache=asked.tactic_cache and asked.samples == 1,
            deadline=asked.timeout,
        )
        found = search(place, wanted, lambda line: print(line, file=journal), teller(job, len(samples)))
        version = lean.version
    if job.processes.stopping:
        raise Stopping
    save_lines(written(job, "proofs.jsonl"), _proofs(samples, found))
    ended = {
        "timestamp": _stamp(time.time()),
        "started": _stamp(started),
        "seconds": round(time.monotonic() - begun, 3),
    }
    how = {"stopped": found.stopped, "samples": asked.samples, "strategies": [*asked.strategies], "toolchain": version}
    save(written(job, "search.json"), {**ended, **how, "config": config(asked, pace, limits["profile"])})


def rules_of(asked: Search, pace: Pace) -> Rules:
    return Rules(
        strategies=tuple(Strategy(name, timeout) for name, timeout in asked.strategies.items()),
        bandit=asked.bandit,
        speculate=asked.speculation,
        levels=asked.levels,
        factor=asked.level_factor,
        light=pace.max_light,
        heavy=pace.max_heavy,
        threshold=asked.escalate_threshold,
        cpu_target=pace.cpu_target,
    )


def _workers(asked: Search, params: Mapping[str, Any], lean: Lean, samples: Sequence[Sample]) -> Mapping[str, Worker]:
    numbers = range(asked.samples)
    each = {n: made(asked.strategies, params, lean, seed_of(n, asked.seed)) for n in numbers}
    return sampled(each, {sample.name: sample.number for sample in samples})


def seed_of(sample: int, seed: int) -> str:
    """None for the first: it is what a search without samples is."""
    return f"sample {sample} seed {seed}" if sample else ""


def config_of(codes: Mapping[str, str], samples: Sequence[Sample], seed: int) -> Callable[[Goal, str], str]:
    """A further sample of a goal is another attempt, though all else is the same."""
    seeds = {sample.name: seed_of(sample.number, seed) for sample in samples}
    return lambda goal, strategy: f"{codes[strategy]} {seeds[goal.id]}".rstrip()


def config(asked: Search, pace: Pace, profile: int | None) -> Record:
    """As results tell it."""
    return {
        "timeout": asked.timeout,
        "max_heavy": pace.max_heavy,
        "max_light": pace.max_light,
        "cpu_target": pace.cpu_target,
        "profile": profile,
        "bandit": asked.bandit,
        "speculation": asked.speculation,
        "levels": asked.levels,
        "level_factor": asked.level_factor,
        "escalate_threshold": asked.escalate_threshold,
        "tactic_cache": asked.tactic_cache,
        "seed": asked.seed,
    }


def teller(job: Job, total: int) -> Callable[[Progress], None]:
    """How far the search is, after each trial."""

    def tell(now: Progress) -> None:
        over = now.solved + now.exhausted
        job.say(f"{over} of {total}, {now.solved} proved; {_last(now)}")

    return tell


def _last(now: Progress) -> str:
    how = "recalled" if now.recalled else duration(now.outcome.seconds)
    return f"{now.trial.goal} {now.outcome.status} by {now.trial.strategy} ({how})"


def _proofs(samples: Sequence[Sample], found: Found) -> Iterable[Record]:
    for sample, standing in zip(samples, found.standings, strict=True):
        yield proof(sample, standing, found.tried.get(sample.name, []))


def proof(sample: Sample, standing: Standing, tried: Sequence[Tried]) -> Record:
    """What became of it, `seconds` being those of all attempts up to the proof."""
    goal, by = sample.goal, standing.by
    until = next((n for n, each in enumerate(tried, 1) if by and each.trial.number == by.number), len(tried))
    won = tried[until - 1].result if by else None
    return {
        "key": sample.name,
        "goal": goal.id,
        "sample": sample.number,
        "line": goal.line,
        "difficulty": goal.difficulty,
        "metadata": dict(goal.metadata),
        "of": as_record(goal),
        "status": STATUS.get(standing.status, results.FRONTIER),
        "strategy": by.strategy if by else "",
        "level": by.level if by else standing.level,
        "tactics": [*won.tactics] if won else [],
        "seconds": round(sum(each.result.time_seconds for each in tried[:until]), 6),
        "attempts": [_attempt(each) for each in tried],
        "why": "" if won else next((each.result.error for each in reversed(tried)), "never tried"),
    }


def _attempt(tried: Tried) -> Record:
    trial, result = tried.trial, tried.result
    return {
        "strategy": trial.strategy,
        "level": trial.level,
        "budget": trial.budget,
        "success": result.success,
        "seconds": round(result.time_seconds, 6),
        "error": result.error,
        "recalled": tried.recalled,
        "raised": RAISED in result.metadata,
    }


def _stamp(seconds: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds))
