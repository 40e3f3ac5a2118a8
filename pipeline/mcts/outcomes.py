"""What a search leaves: an attempt in the ledger, and its files."""

from __future__ import annotations

import time

from pipeline.banks.leans import imported
from pipeline.banks.records import Proof, Record, lean_file, save, write
from pipeline.core.recipe import LIMITS
from pipeline.edge.job import Job, written
from pipeline.edge.lean.model import Theorem
from pipeline.edge.ledger.ledger import Ledger
from pipeline.edge.ledger.model import Attempt, Key, KnownGoal
from pipeline.goals.model import Goal
from pipeline.mcts.plan import OF_SEARCH
from pipeline.mcts.proving import Found
from pipeline.mcts.refusing import REFUSED
from pipeline.mcts.tally import Tally
from pipeline.tactics.moves import PORTFOLIO

CODE = f"mcts.search/1 portfolio {PORTFOLIO}"  # the number is raised when the same search may end otherwise


def keep(job: Job, goal: Goal, whose: str, toolchain: Record, found: Found, seconds: float) -> None:
    """Before the search counts as over.  What it may spend is part of `whose`: a budget of the ledger is in seconds."""
    params = job.target.params
    attempt = Attempt(
        key=Key(goal.key, f"mcts {params['rules']['mode']}", whose, toolchain["version"], 0.0),
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
        ledger.add_goals([KnownGoal(goal.key, goal.text, goal.context, goal.id)], renew=False).result()
        ledger.record(attempt).result()


def conclude(job: Job, theorem: Theorem, toolchain: Record, found: Found, tally: Tally, seconds: float) -> None:
    """`seconds` are what it took this time; what was done before it was stopped is not among them."""
    save(written(job, "run_config.json"), {"theorem": told(theorem), **_decided_by(job), "toolchain": toolchain})
    status: Record = {"status": found.status, "verified": found.verified, "error": found.error}
    save(written(job, "run_status.json"), {**status, "seconds": round(seconds, 3), "asked": found.calls})
    save(written(job, "summary.json"), {**status, **tally.as_record(found.spent), "script": [*found.script]})
    write(written(job, "proof.lean"), proof_file(job, theorem, found))


def _decided_by(job: Job) -> Record:
    return {**{name: job.target.params[name] for name in ("rules", "guides")}, "code": CODE}


def told(of: Theorem) -> Record:
    return {"statement": of.statement, "before": [*of.before]}


def proof_file(job: Job, of: Theorem, found: Found) -> str:
    """The proof, as a file that Lean takes; what does not hold is not written as if it did."""
    if not found.verified:
        return f"-- no proof: {found.error or found.status}\n".replace("\n", "\n-- ").removesuffix("-- ")
    return lean_file(Proof(of.name, of, found.script), imported(job.target.params[LIMITS]["lean"]))


def refuse(job: Job, why: str) -> None:
    """The row of the bank is no goal; the rest of the bank is none the worse."""
    for port in OF_SEARCH:
        write(written(job, port), f"-- no goal: {' '.join(why.split())}\n" if port == "proof.lean" else "")
    status = {"status": REFUSED, "verified": False, "error": why}
    save(written(job, "run_config.json"), _decided_by(job))
    save(written(job, "run_status.json"), status)
    save(written(job, "summary.json"), {**status, **Tally().as_record(0), "script": []})
