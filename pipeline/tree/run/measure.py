"""Stages that measure code: its tests, its checks, its sweep as one command or a row at a time.

Their outputs follow from the tree of files that they measure, whatever the slot.  Each hands on `tree` when it went
well and an empty file when it did not, so that nothing runs after a failure.  Checks run in order; the first that fails
ends them.  A failing candidate is a record; a failing root fails its target."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from typing import Any

from pipeline.core.cages import CAGE, CAGES, GRADES
from pipeline.core.recipe import LIMITS, compact_json
from pipeline.git.commits import Candidate
from pipeline.machine.job import Job, JobFiles, StageFailed
from pipeline.machine.lock import exclusive_machine
from pipeline.store.files import append_lines, read_bytes, whole_lines
from pipeline.store.folders import delete_tree
from pipeline.tree.rules import positions
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.prompts import failed_tests_text
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.sheet import OK, CsvProblem, csv_lines, csv_rows, sheet_room
from pipeline.tree.run.answers import collect_answers
from pipeline.tree.run.canary import DECISIONS_ROOM, DataTable, UnusableTable, parse_data, run_canary
from pipeline.tree.run.command import (
    NOTHING_RAN,
    CheckoutRun,
    CommandRequest,
    add_printed_reason,
    keep_printed,
    note_cure,
    note_in_log,
    run_command,
    run_on_commit,
)
from pipeline.tree.run.protect import PROTECTED_PORT, job_void_reason
from pipeline.tree.run.records import CommandCost, StepRecord, SweepRecord, load, load_as, read_text, save, write
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.run.seal import file_limits
from pipeline.tree.spec.model import ANSWER, ANSWERS, JUDGE, JUDGE_TREE, Canary, Params

MOST_COLUMNS = 1000  # each config could bring others, and all rows have all of them
COLUMNS = ("config_id", "params", "seed", "status", "error")
NOTHING_TO_SWEEP = "there is no code to measure"


def test_stage(job: Job) -> None:
    """Run the tests; `tree` goes on to the sweep if they pass."""
    tree = _tree(job)
    done = _run(job, tree, "tests", {}, wants=False)
    _save_step(job, tree, StepRecord(_status(tree, done.why), done.why, done.exit), done.cost)


def _tried_checkout(slot: positions.EvalSlot) -> str:
    """The checkout in which tests are tried for a coder."""
    return f"{slot}.tried"


def _try_tests(job: Job, tests: Mapping[str, Any], commit: str, log: str) -> CheckoutRun:
    """Run the tests on a commit of which there is no record yet, as `.test` will, for its coder.

    `tests`: as in the limits of the target."""
    where, repo = positions.slot_of(job.target.name), RunRepo(job.target.run)
    own = {"limits": {**file_limits(job.target.params), CAGE: tests.get(CAGE, {})}}
    limits = job.target.limits._replace(timeout=tests["timeout"])
    target = job.target._replace(stage="test", params={**tests["command"], **own}, limits=limits)
    output = positions.RunLayout(job.target.run).of_position(where, "out.tried")
    request = CommandRequest(where, _tried_checkout(where), output, {}, log, wants=False)
    try:
        return run_on_commit(job._replace(target=target, reads=tests["reads"]), request, repo, commit)
    finally:
        delete_tree(output)


class TestsInRounds:
    """Tests that the coder is told of.  Their ends are kept until the target ends: after a kill the same failure is the
    same question, and its answer was paid for."""

    def __init__(self, job: Job, folder: str, is_new: bool) -> None:
        self.job, self.tests = job, job.target.params["limits"].get("tests", {})
        self.path, self.log = f"{folder}/tests.jsonl", f"{folder}/tests.log"
        self.rounds = int(self.tests.get("rounds", 0))
        if is_new and os.path.exists(self.path):  # of a time that came to its end; the tests may be others by now
            os.unlink(self.path)

    def failure(self, candidate: Candidate | None) -> str:
        """The words for the coder; empty when the tests pass, or when a protected file was changed."""
        if candidate is None:
            return ""
        key = sha256(compact_json([candidate.tree, self.tests["command"]]).encode()).hexdigest()
        if key not in (ends := self._recorded_ends()):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            ends[key] = self._run(candidate)
            line = json.dumps({"key": key, "failure": ends[key]}).encode() + b"\n"
            append_lines(self.path, line, cut=True, durable=True)
        return ends[key]

    def _recorded_ends(self) -> dict[str, str]:
        if not os.path.exists(self.path):
            return {}
        with open(self.path, "rb") as file:
            return {each["key"]: each["failure"] for each in map(json.loads, whole_lines(file))}

    def _run(self, candidate: Candidate) -> str:
        write(self.log, b"")
        done = _try_tests(self.job, self.tests, candidate.commit, self.log)
        output = read_text(self.log)
        delete_tree(self.log)
        return "" if done.ok or done.void else failed_tests_text(done.why, output, self._folders())

    def _folders(self) -> dict[str, str]:
        """The folders of this machine that no text for a model names."""
        where, home = RunRepo(self.job.target.run).candidates.folder, os.path.expanduser("~")
        checkout = f"{where}/{_tried_checkout(positions.slot_of(self.job.target.name))}"
        return {os.path.realpath(home): "~", home: "~", os.getcwd(): "{project}", checkout: "."}


def sweep_stage(job: Job) -> None:
    tree = _tree(job)
    if "dry" in job.target.params:
        done = NOTHING_RAN._replace(results=_dry_results(tree, job.target.params["dry"]) if tree else b"")
    else:
        done = _run(job, tree, "sweep", _brace_values(job), wants=True)
    write(job.writes["csv"][0], done.results)
    save(job.writes["sweep"][0], sweep_record(tree, done.why, done.results, done.exit))
    _save_cost(job, done.cost)


def _dry_results(tree: str, shape: Mapping[str, Any]) -> bytes:
    """The results of a dry run, which runs no sweep: made from hashes, the same each time."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["config_id", "status", *([shape["block"]] if "block" in shape else []), *shape["metrics"]])
    for config, block in product(shape.get("config_ids", range(shape["configs"])), shape.get("blocks", [None])):
        words = [tree, str(config)] + ([] if block is None else [str(block)])
        hashes = (sha256("\0".join([*words, name]).encode()).hexdigest()[:8] for name in shape["metrics"])
        numbers = (f"{1 + int(each, 16) / 0xFFFFFFFF:.6f}" for each in hashes)
        table.writerow([config, "ok", *([] if block is None else [block]), *numbers])
    return out.getvalue().encode()


def row_stage(job: Job) -> None:
    """Measure one config; a failure is a row that says so."""
    params, tree = job.target.params, _tree(job)
    config, values = str(params["config_id"]), params["values"]
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    values |= _brace_values(job) | {"config_id": config, "config": json.dumps(params["values"], sort_keys=True)}
    done = _run(job, tree, f"rows-{config}", values, wants=True)
    write(job.writes["csv"][0], _config_rows(params, done) if tree else b"")
    _save_cost(job, done.cost)


def gather_stage(job: JobFiles) -> None:
    tree = _tree(job)
    rows = [cells for path in job.reads["csv"] for cells in _parse_rows(read_bytes(path))[0]]
    void = next((error for error in (cells.get("error", "") for cells in rows) if error.startswith(VOID)), "")
    # all columns that count are there, even when no config has them
    columns = dict.fromkeys(job.target.params["columns"], "")
    results = _csv([columns | cells for cells in rows]) if tree and not void else b""
    write(job.writes["csv"][0], results)
    save(job.writes["sweep"][0], sweep_record(tree, void, results, 0))
    join_logs_and_costs(job)


def join_logs_and_costs(job: JobFiles) -> None:
    """Join the logs and the costs of the parts of a sweep."""
    write(job.writes["log"][0], b"".join(map(read_bytes, job.reads["log"])))
    save(job.writes["cost"][0], total_cost([load_as(CommandCost, path) for path in job.reads["cost"]]))


def total_cost(costs: Sequence[CommandCost]) -> CommandCost:
    """The cost of several commands as if they were one."""
    exit_ = next((cost.exit for cost in costs if cost.exit), 0)
    weakest = min((cost for cost in costs if cost.sandbox), key=lambda cost: GRADES.index(cost.sandbox), default=None)
    seconds, attempts = round(sum(cost.seconds for cost in costs), 3), max(cost.attempts for cost in costs)
    held = (weakest.sandbox, weakest.network) if weakest else (None, None)
    return CommandCost(seconds, attempts, exit_, *held)


def _tree(job: JobFiles) -> str:
    return read_text(job.reads["tree"][0]).strip()


def sweep_record(tree: str, why: str, results: bytes, exit_: int) -> SweepRecord:
    return SweepRecord(_status(tree, why), why if tree else NOTHING_TO_SWEEP, exit_, tree, sha256(results).hexdigest())


def _status(tree: str, why: str) -> str:
    return SKIPPED if not tree else FAILED if why else COMPLETED


def _run(job: Job, tree: str, step: str, values: Mapping[str, str], wants: bool) -> CheckoutRun:
    if not tree:
        return NOTHING_RAN
    where, log, limits = positions.position(job.target.name), job.writes["log"][0], job.target.params.get("limits", {})
    step = ".".join(filter(None, [positions.calibration_name(job.target.name), step]))
    part = positions.sweep_part(job.target.name)  # those of the root may be at work side by side
    names = [*([part] if part else []), *([] if step == "sweep" else [step])]
    output = ".".join([positions.RunLayout(job.target.run).of_position(where, "out"), *names])
    request = CommandRequest(where, ".".join([str(where), *names]), output, values, log, wants)
    request = request._replace(keep_checkout=bool(limits.get("keep_checkout")), configs=_configs(job))
    request = request._replace(room=sheet_room(limits.get("rows")))
    with exclusive_machine(job):
        done = _judged_apart(job, request) if JUDGE in job.target.params else run_command(job, request)
    if not part and "config_id" not in values:  # a holdout stays sealed, and what a row holds is a result
        done = add_printed_reason(done, log, job.project)
    if not done.ok and not isinstance(where, positions.EvalSlot):
        keep_printed(job, log)
        if part == positions.HOLDOUT_PART:
            raise StageFailed(f"the sweep of {where} on what is held out failed: {done.why}", 1)
        note_cure(job, done)
        raise baseline_failure(job.target.run, step, f"failed: {done.why}")
    if not done.ok and not limits.get("keep"):
        delete_tree(output)
        delete_tree(_judge_output(output))
    return done


def _judged_apart(job: Job, request: CommandRequest) -> CheckoutRun:
    """Let the candidate's code answer, and the root's files judge copies of the answers: none of that code runs there.

    Nobody may change the copies meanwhile, such as a process that the candidate left behind."""
    copies, output = f"{request.output}.{ANSWERS}", _judge_output(request.output)
    delete_tree(copies)
    try:
        answered = run_command(_job_of_part(job, ANSWER), request._replace(wants=False, answers=True))
        if answered.ok and (why := collect_answers(request.output, copies)):
            answered = answered._replace(why=why)
        if not answered.ok:
            return answered
        before = _file_states(copies)
        note_in_log(request.log, JUDGE)  # what follows is not by the candidate
        asked = request._replace(checkout=f"{request.checkout}.{JUDGE}", output=output, code=positions.ROOT)
        done = run_command(_job_of_part(job, JUDGE, copies), asked._replace(keep_checkout=False))
        if _file_states(copies) != before:
            done = done._replace(why="the answers were changed while they were judged", results=b"")
    finally:
        delete_tree(copies)
    whose = "bad answer" if isinstance(request.where, positions.EvalSlot) else "the judge"
    why = done.why if done.ok or done.void else f"{whose}: {done.why}"
    seconds, attempts = answered.seconds + done.seconds, max(answered.attempts, done.attempts)
    return done._replace(why=why, seconds=seconds, attempts=attempts)


def _judge_output(output: str) -> str:
    return f"{output}.{JUDGE}"


def _file_states(folder: str) -> list[tuple[str, int, int]]:
    """Files of a folder with their ctimes, which nobody can set."""
    found = [folder, *(f"{at}/{name}" for at, inner, names in os.walk(folder) for name in (*inner, *names))]
    return [(path, (status := os.lstat(path)).st_ctime_ns, status.st_ino) for path in found]


def _job_of_part(job: Job, part: str, answers: str = "") -> Job:
    """The job of one of the two commands, as if it were all that there is to do; `answers`: what the judge judges."""
    params, is_judge = job.target.params, part == JUDGE
    tree, own = (JUDGE_TREE, f"{JUDGE}.") if is_judge else ("tree", "in.")
    reads = {f"in.{port.removeprefix(own)}": paths for port, paths in job.reads.items() if port.startswith(own)}
    reads |= {"tree": job.reads[tree], **({f"in.{ANSWERS}": (answers,)} if is_judge else {})}
    reads |= {port: job.reads[port] for port in (PROTECTED_PORT,) if port in job.reads}
    limits = {name: paths for name, paths in file_limits(params).items() if name != "truth" or not is_judge}
    limits[CAGE] = params["limits"].get(CAGES, {}).get(part, {})
    target = job.target._replace(params={**params[part], "limits": limits})
    timeout = params["limits"]["timeouts"][part]
    return job._replace(target=target._replace(limits=target.limits._replace(timeout=timeout)), reads=reads)


def baseline_failure(run: str, step: str, why: str) -> StageFailed:
    """The failure of the root, with how another one is taken."""
    is_sweep = step not in ("tests", "checks")
    subject = "the sweep of the root, which all is compared with," if is_sweep else f"the {step} of the root"
    commit = load(positions.RunLayout(run).of_run("root.json"))["commit"][:10]
    again = f"a later commit of a git repository is taken after `coppice forget {run}:root`"
    return StageFailed(f"{subject} {why}; it is commit {commit}: {again}", 1)


def _brace_values(job: Job) -> dict[str, str]:
    params = job.target.params
    given = {name: str(params[name]) for name in ("limit", "seed") if name in params}
    return given | ({"blocks": ",".join(params["blocks"])} if "blocks" in params else {})


def _configs(job: Job) -> bytes:
    """The configs as JSON, for a command that asks for them."""
    if "configs" not in job.target.params:
        return b""
    configs = job.target.params["configs"]
    ids = job.target.params.get("config_ids", range(len(configs)))
    rows = [{"config_id": n, **config} for n, config in zip(ids, configs, strict=True)]
    return json.dumps(rows, sort_keys=True).encode()


def _save_step(job: Job, tree: str, record: StepRecord, cost: CommandCost) -> None:
    """Save the end of a step before the sweep, and hand `tree` on if it ended well."""
    save(job.writes[job.target.stage][0], record)
    write(job.writes["tree"][0], "" if record.why else tree)
    _save_cost(job, cost)


def _save_cost(job: Job, cost: CommandCost) -> None:
    """Save the cost, apart from the results since it differs each time; and a log, which a silent command lacks."""
    save(job.writes["cost"][0], cost)
    if not os.path.exists(job.writes["log"][0]):
        write(job.writes["log"][0], b"")


def _config_rows(params: Mapping[str, Any], done: CheckoutRun) -> bytes:
    """The rows of one config: one, or one for each block."""
    rows, why = _parse_rows(done.results) if done.ok else ([], done.why)
    if not why and len(rows) != 1 and not (rows and "block" in params):
        why = f"{len(rows)} rows were written for one config"
    fixed = {"config_id": str(params["config_id"]), "params": json.dumps(params["values"], sort_keys=True)}
    if why:
        return _csv([{**fixed, "status": "error", "error": why}])
    return _csv([{"status": OK, "error": "", **cells, **fixed} for cells in rows])


def _parse_rows(results: bytes) -> tuple[list[dict[str, str]], str]:
    """The rows of results, and what is wrong with them: they may be anything."""
    try:
        table = [cells for _, cells in csv_rows(csv_lines(results.decode(errors="replace"))) if any(cells)]
    except CsvProblem as problem:
        return [], f"line {problem.line} of its results is not CSV: {problem}"
    if table and len(table[0]) > MOST_COLUMNS:
        return [], f"its results have more than {MOST_COLUMNS} columns"
    return [dict(zip(table[0], cells, strict=False)) for cells in table[1:]], ""


def _csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Rows as CSV: our columns first, then the others in the order of their appearance, as many as may be."""
    seen = dict.fromkeys(name for row in rows for name in row)
    header = [*COLUMNS, *(name for name in seen if name not in COLUMNS)][:MOST_COLUMNS]
    out = io.StringIO()
    table = csv.DictWriter(out, header, restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue().encode()


def check_stage(job: Job) -> None:
    """Run the checks; `tree` goes on to the sweep if they pass."""
    tree = _tree(job)
    why = job_void_reason(job, tree)
    runs: list[CheckoutRun] = []
    results = [*_check_results(job, tree, runs)] if tree and not why else []
    if failed := next((each for each in results if each["why"]), None):
        why = failed["why"] if failed["why"].startswith(VOID) else f"{failed['name']}: {failed['why']}"
    if why and not isinstance(positions.position(job.target.name), positions.EvalSlot):
        keep_printed(job, job.writes["log"][0])
        note_cure(job, runs[-1] if runs else NOTHING_RAN)
        raise baseline_failure(job.target.run, "checks", f"failed: {why}")
    exit_ = results[-1]["exit"] if results else 0
    cost = total_cost([each.cost for each in runs or [NOTHING_RAN]])
    _save_step(job, tree, StepRecord(_status(tree, why), why, exit_, results), cost)


def _check_results(whole: Job, tree: str, runs: list[CheckoutRun]) -> Iterator[dict[str, Any]]:
    """The results of the checks up to the first that fails; adds what they run to `runs`."""
    for number, check in enumerate(whole.target.params["checks"]):
        job, name = _check_job(whole, number), check["name"]
        if check["canary"]:
            why, more = _canary_result(job, check, tree, runs)
        else:
            done = _run_check(job, name, name, False, runs)
            why, more = done.why, {"exit": done.exit}
        yield {"name": name, "status": _status(tree, why), "why": why, **more}
        if why:
            return


def _canary_result(job: Job, check: Params, tree: str, runs: list[CheckoutRun]) -> tuple[str, dict[str, Any]]:
    name, canary = check["name"], Canary(**check["canary"])
    content, data = _canary_data(job, name, canary)
    folder, port = _check_output(job, f"{name}.data"), f"in.{canary.port}"
    cut = f"{folder}/{os.path.basename(job.reads[port][0])}"

    def run(until: str) -> CheckoutRun:
        if until == data.last:
            return _run_check(job, name, f"{name}, all data", True, runs)
        os.makedirs(folder, exist_ok=True)
        write(cut, data.until(until).encode(errors="surrogateescape"))
        on_cut = job._replace(reads={**job.reads, port: [cut]})
        return _run_check(on_cut, name, f"{name}, data up to {until}", True, runs)

    try:
        done = run_canary(canary, data, f"{sha256(content).hexdigest()} {tree}", run)
    finally:
        delete_tree(folder)
    return done.why, {"exit": done.exit, "decisions": done.decisions, "cuts": [each._asdict() for each in done.cuts]}


def _run_check(job: Job, name: str, words: str, wants: bool, runs: list[CheckoutRun]) -> CheckoutRun:
    log, where = job.writes["log"][0], positions.position(job.target.name)
    output = _check_output(job, name)
    note_in_log(log, words)
    request = CommandRequest(where, f"{where}.checks", output, {}, log, wants, room=DECISIONS_ROOM)
    done = add_printed_reason(run_command(job, request), log, job.project)
    if not done.ok:
        delete_tree(output)
    runs.append(done)
    return done


def _check_output(job: Job, name: str) -> str:
    return positions.RunLayout(job.target.run).of_position(positions.position(job.target.name), f"out.checks.{name}")


def _check_job(job: Job, number: int) -> Job:
    """The job of one check, as if its command were all that there is to do."""
    params = job.target.params
    check, timeout = params["checks"][number], params["limits"]["timeouts"][number]
    own = f"in.{check['name']}."
    reads = {f"in.{port.removeprefix(own)}": paths for port, paths in job.reads.items() if port.startswith(own)}
    reads |= {port: job.reads[port] for port in ("tree", PROTECTED_PORT) if port in job.reads}
    own_limits = {**file_limits(params), CAGE: params["limits"].get(CAGES, {}).get(check["name"], {})}
    target = job.target._replace(
        params={**check, LIMITS: own_limits}, limits=job.target.limits._replace(timeout=timeout)
    )
    return job._replace(target=target, reads=reads)


def _canary_data(job: Job, name: str, canary: Canary) -> tuple[bytes, DataTable]:
    """The data of a canary; mistakes in it are no candidate's fault, and fail the target."""
    paths = job.reads[f"in.{canary.port}"]
    if len(paths) != 1 or not os.path.isfile(paths[0]):
        raise StageFailed(f"checks: {name}: cut: {canary.port} is no single file; name one CSV", 2)
    content = read_bytes(paths[0])
    try:
        return content, parse_data(content.decode(errors="surrogateescape"), canary.column)
    except UnusableTable as error:
        raise StageFailed(f"checks: {name}: cut: {paths[0]}: {error}", 2) from error
