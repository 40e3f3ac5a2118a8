"""The stage that searches for the proof of one goal: resumed where it was stopped, its proof kept in the ledger.

A journal of another search or other code is begun anew. The attempt is in the ledger before the files are written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.core.journal import JournalDiffers
from pipeline.core.recipe import LIMITS, compact_json
from pipeline.core.text import plural
from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Goal, goal_from_json, theorem_of
from pipeline.goals.lean_files import Proof, lean_file
from pipeline.lean.backends.table import required_imports, shared_lean
from pipeline.lean.model import Interrupted, Theorem
from pipeline.machine.job import Job, input_path, output_path
from pipeline.machine.process import BuildStopping
from pipeline.mcts.plan import SEARCH_FILES, TRACE, goal_of_target, journal_path
from pipeline.mcts.report.figures import REFUSED
from pipeline.mcts.run import SearchFiles, StopWhen, TheoremResult, TheoremTask, prove_theorem
from pipeline.mcts.search.guides import Guide, choose_priors, choose_rewards
from pipeline.mcts.search.journal import mode_from_json
from pipeline.mcts.search.trace import TraceTally, trace_line
from pipeline.store.files import OwnedLog, open_log
from pipeline.store.ledger import Ledger
from pipeline.store.records import Record, load, save, write
from pipeline.tactics.moves import PORTFOLIO

SEARCH_CODE = f"mcts.search/1 portfolio {PORTFOLIO}"  # the number is raised when the same search may end otherwise
SAY_EVERY = 50  # iterations after which it says how far it is


def search_goal(job: Job) -> None:
    row = load(input_path(job, "goal.json"))
    if REFUSED in row:
        write_refused(job, row[REFUSED])
        return
    begun, identity = time.monotonic(), search_identity(job)
    goal = goal_from_json({**row, "id": goal_of_target(job.target)})
    theorem = theorem_of(goal)
    with open_log(journal_path(job.target), identity) as draft:
        try:
            result, tally = _run_search(job, theorem, draft)
        except JournalDiffers as why:
            job.say(f"begun anew, its journal being that of other code: {why}")
            draft.begin()
            result, tally = _run_search(job, theorem, draft)
        write(output_path(job, "journal.jsonl"), "".join(f"{each}\n" for each in draft.lines))
    seconds, toolchain = time.monotonic() - begun, load(input_path(job, "toolchain.json"))
    keep_attempt(job, goal, identity, toolchain, result, seconds)
    write_outputs(job, theorem, toolchain, result, tally, seconds)


def search_identity(job: Job) -> str:
    """Digest of all that decides the search: a journal of another one is of no use."""
    contents = [Path(input_path(job, port)).read_text(encoding="utf-8") for port in job.reads]
    params = {name: value for name, value in job.target.params.items() if name != LIMITS}
    return sha256(compact_json([SEARCH_CODE, params, contents]).encode()).hexdigest()


def _run_search(job: Job, theorem: Theorem, draft: OwnedLog) -> tuple[TheoremResult, TraceTally]:
    params, tally = job.target.params, TraceTally()
    (rules, clock), by = mode_from_json(params["rules"]), params["guides"]
    shares = load(input_path(job, "shares.json"))["shares"] if "shares.json" in job.reads else None
    guide = Guide(choose_priors(by["priors"], shares, by["seed"]), choose_rewards(by["rewards"]))
    with open(output_path(job, TRACE), "w", encoding="utf-8") as trace:

        def note(record: Mapping[str, Any]) -> None:
            print(trace_line(record), file=trace)
            tally.add_iteration(record)
            if record["iteration"] % SAY_EVERY == 0:
                job.say(f"{plural(tally.calls, 'call')}, {plural(tally.tree['nodes'], 'goal')}")

        task, files = TheoremTask(theorem, rules, guide, clock), SearchFiles(draft.lines, draft.write, note)
        stop, sessions = StopWhen(lambda: job.processes.stopping), params[LIMITS]["sessions"]
        try:
            return prove_theorem(task, shared_lean(job), files, stop, sessions), tally
        except Interrupted as error:
            raise BuildStopping from error


def keep_attempt(job: Job, goal: Goal, identity: str, toolchain: Record, result: TheoremResult, seconds: float) -> None:
    """Record the attempt before the search counts as over.  Its limits are in `identity`: the ledger's are seconds."""
    params = job.target.params
    attempt = Attempt(
        key=AttemptKey(goal.key, f"mcts {params['rules']['mode']}", identity, toolchain["version"], 0.0),
        goal_text=goal.text,
        success=bool(result.script),
        time_seconds=seconds,
        timestamp=time.time(),
        tactics=result.script,
        error=result.error,
        verified=result.verified,
        run=job.target.run,
    )
    with Ledger(params[LIMITS]["ledger"]) as ledger:
        ledger.add_goals([goal], renew=False).result()
        ledger.record(attempt).result()


def write_outputs(
    job: Job, theorem: Theorem, toolchain: Record, result: TheoremResult, tally: TraceTally, seconds: float
) -> None:
    """`seconds` are what it took this time; what was done before it was stopped is not among them."""
    config = {"theorem": {"statement": theorem.statement, "before": [*theorem.before]}, "toolchain": toolchain}
    status = {"status": result.status, "verified": result.verified, "error": result.error}
    cost = {"seconds": round(seconds, 3), "asked": result.calls}
    _save_records(job, config, status, cost, {**tally.as_record(result.spent), "script": [*result.script]})
    if result.verified:
        imports = required_imports(job.target.params[LIMITS]["lean"])
        text = lean_file(Proof(theorem.name, theorem, result.script), imports)
    else:  # what does not hold is not written as if it did
        text = f"-- no proof: {result.error or result.status}\n".replace("\n", "\n-- ").removesuffix("-- ")
    write(output_path(job, "proof.lean"), text)


def write_refused(job: Job, why: str) -> None:
    """Write the outputs of a row that is no goal; the rest of the bank goes on."""
    for port in SEARCH_FILES:
        write(output_path(job, port), f"-- no goal: {' '.join(why.split())}\n" if port == "proof.lean" else "")
    status = {"status": REFUSED, "verified": False, "error": why}
    _save_records(job, {}, status, {}, {**TraceTally().as_record(0), "script": []})


def _save_records(job: Job, config: Record, status: Record, cost: Record, summary: Record) -> None:
    params = job.target.params
    rules = {"rules": params["rules"], "guides": params["guides"], "code": SEARCH_CODE}
    save(output_path(job, "run_config.json"), {**config, **rules})
    save(output_path(job, "run_status.json"), {**status, **cost})
    save(output_path(job, "summary.json"), {**status, **summary})
