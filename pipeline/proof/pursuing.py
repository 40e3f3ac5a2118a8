"""The stage behind `coppice bg`: open goals of the ledger, with ever larger budgets, as long as there is time."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace

from pipeline.banks.leans import opened
from pipeline.banks.records import goal_of, load, save
from pipeline.edge.job import Job, read, written
from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.ledger.model import KnownGoal
from pipeline.edge.process import Stopping
from pipeline.goals.model import Goal
from pipeline.proof.keeping import known
from pipeline.proof.making import made
from pipeline.proof.proving import rules_of, teller
from pipeline.proof.searching import Place, Wanted, search
from pipeline.proof.settings import Pace, Search
from pipeline.proof.trials import SOLVED


def pursue(job: Job) -> None:
    params, limits = job.target.params, job.target.params["limits"]
    asked = Search(**params["search"])
    begun = time.monotonic()
    with (
        Ledger(limits["ledger"]) as ledger,
        closing(opened(job)) as lean,
        open(os.devnull, "w") as nowhere,
    ):
        goals = _open_goals(job, ledger)
        wanted = Wanted(
            goals=goals,
            rules=replace(rules_of(asked, Pace(**limits["pace"])), rounds=True),
            workers=made(asked.strategies, params, lean),
            config=lambda goal, strategy: params["codes"][strategy],
            use_cache=asked.tactic_cache,
            deadline=asked.timeout,
        )
        place = Place(lean, limits["lean"]["processes"], ledger, job.processes, job.target.run)
        found = search(place, wanted, nowhere.write, teller(job, len(goals)))
    if job.processes.stopping:
        raise Stopping
    proved = [standing.goal.id for standing in found.standings if standing.status == SOLVED]
    record = {"goals": len(goals), "proved": proved, "stopped": found.stopped}
    save(written(job, "pursue.json"), {**record, "seconds": round(time.monotonic() - begun, 3)})


def _open_goals(job: Job, ledger: Ledger) -> Sequence[Goal]:
    """Of a bank, if one is named; otherwise whatever anybody asked for."""
    if "bank.json" in job.reads:
        asked = [goal_of(each) for each in load(read(job, "bank.json"))["goals"]]
        ledger.add_goals([*map(known, asked)]).result()
        open_ = {each.goal.goal_hash for each in ledger.frontier()}
        return [goal for goal in asked if goal.key in open_]
    return [*_named_apart(each.goal for each in ledger.frontier())]


def _named_apart(goals: Iterable[KnownGoal]) -> Iterable[Goal]:
    """Banks may use the same names for different goals."""
    listed = [*goals]
    counts = Counter(goal.name for goal in listed)
    for goal in listed:
        name = goal.name if counts[goal.name] == 1 else f"{goal.name} {goal.goal_hash[:8]}"
        yield Goal(name, goal.goal_text, goal.difficulty, goal.priority, goal.context, key=goal.goal_hash)
