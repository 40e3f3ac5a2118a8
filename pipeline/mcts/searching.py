"""The stage that searches for the proof of one goal: resumed where it was stopped, its proof kept in the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pipeline.banks.leans import shared
from pipeline.banks.records import goal_of, load, theorem_of, write
from pipeline.core.recipe import LIMITS, compact
from pipeline.core.words import plural
from pipeline.edge.job import Job, read, written
from pipeline.edge.lean.model import Interrupted
from pipeline.edge.process import Processes, Stopping
from pipeline.goals.model import Goal
from pipeline.mcts import priors, rewards
from pipeline.mcts.as_json import rules_from_json, team_from_json
from pipeline.mcts.drafts import Draft, opened, path_of
from pipeline.mcts.journal import DISTRIBUTED, VIRTUAL_TIME
from pipeline.mcts.outcomes import CODE, conclude, keep, refuse
from pipeline.mcts.plan import TRACE, name_of
from pipeline.mcts.proving import Files, Found, Wanted, prove
from pipeline.mcts.refusing import REFUSED
from pipeline.mcts.replaying import Diverged
from pipeline.mcts.tally import Tally
from pipeline.mcts.trace import line
from pipeline.mcts.trying import Guide

TOLD = 50  # iterations after which it says how far it is


class Ending:
    """The build is being stopped."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def is_set(self) -> bool:
        return self._processes.stopping


def search(job: Job) -> None:
    goal = load(read(job, "goal.json"))
    if REFUSED in goal:
        refuse(job, goal[REFUSED])
        return
    begun, whose = time.monotonic(), identity(job)
    asked = goal_of({**goal, "id": name_of(job.target)})
    wanted = wanted_of(job, asked)
    with opened(path_of(job.target), whose) as draft:
        found, tally = _found(job, wanted, draft)
        write(written(job, "journal.jsonl"), "".join(f"{each}\n" for each in draft.lines))
    seconds, toolchain = time.monotonic() - begun, load(read(job, "toolchain.json"))
    keep(job, asked, whose, toolchain, found, seconds)
    conclude(job, wanted.theorem, toolchain, found, tally, seconds)


def wanted_of(job: Job, goal: Goal) -> Wanted:
    params = job.target.params
    told, by = params["rules"], params["guides"]
    rules = team_from_json(told["team"]) if told["mode"] == DISTRIBUTED else rules_from_json(told["rules"])
    known = load(read(job, "shares.json"))["shares"] if "shares.json" in job.reads else None
    guide = Guide(priors.chosen(by["priors"], known, by["seed"]), rewards.chosen(by["rewards"]))
    return Wanted(theorem_of(goal), rules, guide, told.get("time", VIRTUAL_TIME))


def identity(job: Job) -> str:
    """All that decides the search: a journal of another one is of no use."""
    contents = []
    for port in job.reads:
        with open(read(job, port), encoding="utf-8") as file:
            contents.append(file.read())
    params = {name: value for name, value in job.target.params.items() if name != LIMITS}
    return sha256(compact([CODE, params, contents]).encode()).hexdigest()


def _found(job: Job, wanted: Wanted, draft: Draft) -> tuple[Found, Tally]:
    try:
        return _searched(job, wanted, draft)
    except Diverged as why:
        job.say(f"begun anew, its journal being that of other code: {why}")
        draft.begin()
        return _searched(job, wanted, draft)


def _searched(job: Job, wanted: Wanted, draft: Draft) -> tuple[Found, Tally]:
    tally = Tally()
    with open(written(job, TRACE), "w", encoding="utf-8") as trace:

        def note(told: Mapping[str, Any]) -> None:
            print(line(told), file=trace)
            tally.hear(told)
            if told["iteration"] % TOLD == 0:
                job.say(f"{plural(tally.calls, 'call')}, {plural(tally.tree['nodes'], 'goal')}")

        try:
            files, sessions = Files(draft.lines, draft.write, note), job.target.params[LIMITS]["sessions"]
            found = prove(wanted, shared(job), files, Ending(job.processes), sessions)
        except Interrupted as error:
            raise Stopping from error
    return found, tally
