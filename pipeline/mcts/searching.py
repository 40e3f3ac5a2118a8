"""The stage that searches for the proof of one goal: resumed where it was stopped, its proof kept in the ledger."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pipeline.banks.leans import shared
from pipeline.banks.records import Record, goal_of, load, save, theorem_of, write
from pipeline.core.recipe import LIMITS, compact
from pipeline.core.words import plural
from pipeline.edge.job import Job, read, written
from pipeline.edge.lean.model import Interrupted, Theorem
from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.ledger.model import Attempt, Key, KnownGoal
from pipeline.edge.process import Processes, Stopping
from pipeline.goals.model import Goal
from pipeline.mcts import priors, rewards
from pipeline.mcts.as_json import rules_from_json, team_from_json
from pipeline.mcts.drafts import Draft, opened, path_of
from pipeline.mcts.journal import DISTRIBUTED, VIRTUAL_TIME
from pipeline.mcts.plan import OF_SEARCH, TRACE
from pipeline.mcts.proving import Files, Found, Wanted, prove
from pipeline.mcts.replaying import Diverged
from pipeline.mcts.tally import Tally
from pipeline.mcts.trace import line
from pipeline.mcts.trying import Guide
from pipeline.tactics.moves import PORTFOLIO

CODE = f"mcts.search/1 portfolio {PORTFOLIO}"  # the number is raised when the same search may end otherwise
REFUSED = "refused"
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
        _refuse(job, goal[REFUSED])
        return
    begun = time.monotonic()
    wanted = wanted_of(job, goal_of(goal))
    with opened(path_of(job.target), identity(job)) as draft:
        found, tally = _found(job, wanted, draft)
        write(written(job, "journal.jsonl"), "".join(f"{each}\n" for each in draft.lines))
    seconds = time.monotonic() - begun
    _keep(job, goal_of(goal), found, seconds)
    _conclude(job, wanted, found, tally, seconds)


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
            if tally.iterations % TOLD == 0:
                job.say(f"{plural(tally.calls, 'call')}, {plural(tally.tree['nodes'], 'goal')}")

        try:
            found = prove(wanted, shared(job), Files(draft.lines, draft.write, note), Ending(job.processes))
        except Interrupted as error:
            raise Stopping from error
    return found, tally


def _keep(job: Job, goal: Goal, found: Found, seconds: float) -> None:
    """Before the search counts as over."""
    params = job.target.params
    mode, calls = params["rules"]["mode"], _rules(params["rules"])["budget"]["calls"]
    toolchain = load(read(job, "toolchain.json"))["version"]
    attempt = Attempt(
        key=Key(goal.key, f"mcts {mode}", identity(job), toolchain, float(calls)),
        goal_text=goal.text,
        success=bool(found.script),
        time_seconds=seconds,
        timestamp=time.time(),
        tactics=found.script,
        error=found.error,
        verified=found.verified,
        run=job.target.run,
    )
    with Ledger(params[LIMITS]["ledger"]) as ledger:
        ledger.add_goals([KnownGoal(goal.key, goal.text, goal.context, goal.id)]).result()
        ledger.record(attempt).result()


def _rules(told: Mapping[str, Any]) -> Mapping[str, Any]:
    rules: Mapping[str, Any] = told["team"]["rules"] if told["mode"] == DISTRIBUTED else told["rules"]
    return rules


def _conclude(job: Job, wanted: Wanted, found: Found, tally: Tally, seconds: float) -> None:
    of = wanted.theorem
    theorem = {"statement": of.statement, "before": [*of.before]}
    by = {name: job.target.params[name] for name in ("rules", "guides")}
    toolchain = load(read(job, "toolchain.json"))
    save(written(job, "run_config.json"), {"theorem": theorem, **by, "toolchain": toolchain, "code": CODE})
    status: Record = {"status": found.status, "verified": found.verified, "error": found.error}
    save(written(job, "run_status.json"), {**status, "seconds": round(seconds, 3), "asked": found.calls})
    save(written(job, "summary.json"), {**status, **tally.as_record(), "script": [*found.script]})
    write(written(job, "proof.lean"), lean_file(of, found))


def lean_file(of: Theorem, found: Found) -> str:
    """The proof, to be read; what does not hold is not written as if it did."""
    if not found.verified:
        return f"-- no proof: {found.error or found.status}\n".replace("\n", "\n-- ").removesuffix("-- ")
    lines = [*of.before, f"theorem {of.name} : {of.statement} := by", *(f"  {each}" for each in found.script)]
    return "\n".join([*lines, ""])


def _refuse(job: Job, why: str) -> None:
    """The row of the bank is no goal; the rest of the bank is none the worse."""
    for port in OF_SEARCH:
        write(written(job, port), f"-- no goal: {' '.join(why.split())}\n" if port == "proof.lean" else "")
    status = {"status": REFUSED, "verified": False, "error": why}
    save(written(job, "run_config.json"), {"rules": job.target.params["rules"], "code": CODE})
    save(written(job, "run_status.json"), status)
    save(written(job, "summary.json"), {**status, **Tally().as_record(), "script": []})
