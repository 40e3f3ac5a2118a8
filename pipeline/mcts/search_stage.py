"""The stage that searches for the proof of one goal: resumed where it was stopped, its proof kept in the ledger.

A journal of another search or other code is of no use and is begun anew. The attempt is in the ledger before the
search counts as over; the files are written last."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pipeline.core.journal import JournalDiffers
from pipeline.core.recipe import LIMITS, compact_json
from pipeline.core.text import plural
from pipeline.goals.bank import Goal, goal_from_json, theorem_of
from pipeline.goals.lean_files import Proof, lean_file
from pipeline.lean.backends.table import required_imports, shared_lean
from pipeline.lean.model import Interrupted, Theorem
from pipeline.ledger.model import Attempt, AttemptKey
from pipeline.ledger.sqlite.ledger import Ledger
from pipeline.machine.job import Job, input_path, output_path
from pipeline.machine.process import BuildStopping, Processes
from pipeline.mcts.plan import SEARCH_FILES, TRACE, goal_of_target, journal_path
from pipeline.mcts.report.figures import REFUSED
from pipeline.mcts.run.engine import SearchFiles, TheoremResult, TheoremTask, prove_theorem
from pipeline.mcts.search import guides
from pipeline.mcts.search.evaluator import Guide
from pipeline.mcts.search.journal import mode_from_json
from pipeline.mcts.search.trace import TraceTally, trace_line
from pipeline.store.files import OwnedLog, open_log
from pipeline.store.records import Record, load, save, write
from pipeline.tactics.moves import PORTFOLIO

SEARCH_CODE = f"mcts.search/1 portfolio {PORTFOLIO}"  # the number is raised when the same search may end otherwise


def keep_attempt(job: Job, goal: Goal, whose: str, toolchain: Record, found: TheoremResult, seconds: float) -> None:
    """Record the attempt before the search counts as over.  Its limits are in `whose`: the ledger's are in seconds."""
    params = job.target.params
    attempt = Attempt(
        key=AttemptKey(goal.key, f"mcts {params['rules']['mode']}", whose, toolchain["version"], 0.0),
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
        ledger.add_goals([goal], renew=False).result()
        ledger.record(attempt).result()


def write_outputs(
    job: Job, theorem: Theorem, toolchain: Record, found: TheoremResult, tally: TraceTally, seconds: float
) -> None:
    """`seconds` are what it took this time; what was done before it was stopped is not among them."""
    save(
        output_path(job, "run_config.json"),
        {"theorem": theorem_record(theorem), **_deciding_params(job), "toolchain": toolchain},
    )
    status: Record = {"status": found.status, "verified": found.verified, "error": found.error}
    save(output_path(job, "run_status.json"), {**status, "seconds": round(seconds, 3), "asked": found.calls})
    save(output_path(job, "summary.json"), {**status, **tally.as_record(found.spent), "script": [*found.script]})
    write(output_path(job, "proof.lean"), proof_file(job, theorem, found))


def _deciding_params(job: Job) -> Record:
    return {**{name: job.target.params[name] for name in ("rules", "guides")}, "code": SEARCH_CODE}


def theorem_record(of: Theorem) -> Record:
    return {"statement": of.statement, "before": [*of.before]}


def proof_file(job: Job, of: Theorem, found: TheoremResult) -> str:
    """The proof, as a file that Lean takes; what does not hold is not written as if it did."""
    if not found.verified:
        return f"-- no proof: {found.error or found.status}\n".replace("\n", "\n-- ").removesuffix("-- ")
    return lean_file(Proof(of.name, of, found.script), required_imports(job.target.params[LIMITS]["lean"]))


def write_refused(job: Job, why: str) -> None:
    """Write the outputs of a row that is no goal; the rest of the bank goes on."""
    for port in SEARCH_FILES:
        write(output_path(job, port), f"-- no goal: {' '.join(why.split())}\n" if port == "proof.lean" else "")
    status = {"status": REFUSED, "verified": False, "error": why}
    save(output_path(job, "run_config.json"), _deciding_params(job))
    save(output_path(job, "run_status.json"), status)
    save(output_path(job, "summary.json"), {**status, **TraceTally().as_record(0), "script": []})


SAY_EVERY = 50  # iterations after which it says how far it is


class BuildStop:
    """A stop that is set while the build is being stopped."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def is_set(self) -> bool:
        return self._processes.stopping


def search_goal(job: Job) -> None:
    goal = load(input_path(job, "goal.json"))
    if REFUSED in goal:
        write_refused(job, goal[REFUSED])
        return
    begun, whose = time.monotonic(), search_identity(job)
    asked = goal_from_json({**goal, "id": goal_of_target(job.target)})
    wanted = theorem_task(job, asked)
    with open_log(journal_path(job.target), whose) as draft:
        found, tally = _search_or_restart(job, wanted, draft)
        write(output_path(job, "journal.jsonl"), "".join(f"{each}\n" for each in draft.lines))
    seconds, toolchain = time.monotonic() - begun, load(input_path(job, "toolchain.json"))
    keep_attempt(job, asked, whose, toolchain, found, seconds)
    write_outputs(job, wanted.theorem, toolchain, found, tally, seconds)


def theorem_task(job: Job, goal: Goal) -> TheoremTask:
    params = job.target.params
    (rules, clock), by = mode_from_json(params["rules"]), params["guides"]
    known = load(input_path(job, "shares.json"))["shares"] if "shares.json" in job.reads else None
    guide = Guide(guides.choose_priors(by["priors"], known, by["seed"]), guides.choose_rewards(by["rewards"]))
    return TheoremTask(theorem_of(goal), rules, guide, clock)


def search_identity(job: Job) -> str:
    """Digest of all that decides the search: a journal of another one is of no use."""
    contents = []
    for port in job.reads:
        with open(input_path(job, port), encoding="utf-8") as file:
            contents.append(file.read())
    params = {name: value for name, value in job.target.params.items() if name != LIMITS}
    return sha256(compact_json([SEARCH_CODE, params, contents]).encode()).hexdigest()


def _search_or_restart(job: Job, wanted: TheoremTask, draft: OwnedLog) -> tuple[TheoremResult, TraceTally]:
    try:
        return _run_search(job, wanted, draft)
    except JournalDiffers as why:
        job.say(f"begun anew, its journal being that of other code: {why}")
        draft.begin()
        return _run_search(job, wanted, draft)


def _run_search(job: Job, wanted: TheoremTask, draft: OwnedLog) -> tuple[TheoremResult, TraceTally]:
    tally = TraceTally()
    with open(output_path(job, TRACE), "w", encoding="utf-8") as trace:

        def note(record: Mapping[str, Any]) -> None:
            print(trace_line(record), file=trace)
            tally.add_iteration(record)
            if record["iteration"] % SAY_EVERY == 0:
                job.say(f"{plural(tally.calls, 'call')}, {plural(tally.tree['nodes'], 'goal')}")

        try:
            files, sessions = SearchFiles(draft.lines, draft.write, note), job.target.params[LIMITS]["sessions"]
            found = prove_theorem(wanted, shared_lean(job), files, BuildStop(job.processes), sessions)
        except Interrupted as error:
            raise BuildStopping from error
    return found, tally
