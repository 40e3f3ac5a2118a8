"""Stages that measure code: its tests, its checks, its sweep as one command or a row at a time.

Their outputs follow from the tree of files that they measure, whatever the slot.  Each hands on `tree` when it went
well and an empty file when it did not, so that nothing runs after a failure.  Checks run in order; the first that fails
ends them.  A failing candidate is a record; a failing root fails its target."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pipeline.machine.job import Job, JobFiles, StageFailed
from pipeline.store.files import read_bytes
from pipeline.store.folders import delete_tree
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.positions import (
    HOLDOUT_PART,
    EvalSlot,
    NodePlace,
    RunLayout,
    calibration_name,
    position,
    sweep_part,
)
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.sheet import OK, CsvProblem, csv_rows
from pipeline.tree.run.canary import DataTable, UnusableTable, parse_data, run_canary
from pipeline.tree.run.command import NOTHING_RAN, CheckoutRun, CommandRequest, keep_printed, note_in_log, run_command
from pipeline.tree.run.protect import PROTECTED_PORT, job_void_reason
from pipeline.tree.run.records import (
    CommandCost,
    Record,
    StepRecord,
    SweepRecord,
    load,
    load_as,
    read_text,
    save,
    write,
)
from pipeline.tree.spec.model import Canary

COLUMNS = ("config_id", "params", "seed", "status", "error")
NOTHING_TO_SWEEP = "there is no code to measure"


def test_stage(job: Job) -> None:
    """Run the tests; `tree` goes on to the sweep if they pass."""
    tree = _tree(job)
    done = _run(job, "tests", {}, wants=False) if tree else NOTHING_RAN
    status = SKIPPED if not tree else COMPLETED if done.ok else FAILED
    save(job.writes["test"][0], StepRecord(status, done.why, done.exit))
    write(job.writes["tree"][0], tree if done.ok else "")
    _save_run_cost(job, done)


def sweep_stage(job: Job) -> None:
    tree = _tree(job)
    if "dry" in job.target.params:
        from pipeline.tree.rules.prompts import dry_results

        done = NOTHING_RAN._replace(results=dry_results(tree, job.target.params["dry"]) if tree else b"")
    else:
        done = _run(job, "sweep", _brace_values(job), wants=True) if tree else NOTHING_RAN
    write(job.writes["csv"][0], done.results)
    save(job.writes["sweep"][0], sweep_record(tree, done.why, done.results, done.exit))
    _save_run_cost(job, done)


def row_stage(job: Job) -> None:
    """Measure one config; a failure is a row that says so."""
    params, tree = job.target.params, _tree(job)
    config = str(params["config_id"])
    given = params["values"].items()
    values = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given}
    values |= _brace_values(job) | {"config_id": config, "config": json.dumps(params["values"], sort_keys=True)}
    done = _run(job, f"rows-{config}", values, wants=True) if tree else NOTHING_RAN
    write(job.writes["csv"][0], _config_rows(params, done) if tree else b"")
    _save_run_cost(job, done)


def gather_stage(job: JobFiles) -> None:
    tree = _tree(job)
    rows = [read_text(path) for path in job.reads["csv"]]
    void = next(filter(None, map(_void_reason, rows)), "")
    results = _join_rows(rows, job.target.params["columns"]) if tree and not void else b""
    write(job.writes["csv"][0], results)
    save(job.writes["sweep"][0], sweep_record(tree, void, results, 0))
    write(job.writes["log"][0], b"".join(map(read_bytes, job.reads["log"])))
    save(job.writes["cost"][0], total_cost([load_as(CommandCost, path) for path in job.reads["cost"]]))


def total_cost(costs: Sequence[CommandCost]) -> CommandCost:
    """The cost of several commands as if they were one."""
    exit_ = next((cost.exit for cost in costs if cost.exit), 0)
    shield = next((cost.shield for cost in reversed(costs) if cost.shield is not None), None)
    seconds, attempts = round(sum(cost.seconds for cost in costs), 3), max(cost.attempts for cost in costs)
    return CommandCost(seconds, attempts, exit_, shield)


def _void_reason(row: str) -> str:
    """The reason for which this row makes all results void; empty if it does not."""
    errors = (cells.get("error", "") for cells in _parse_rows(row.encode())[0])
    return next((error for error in errors if error.startswith(VOID)), "")


def _tree(job: JobFiles) -> str:
    return read_text(job.reads["tree"][0]).strip()


def sweep_record(tree: str, why: str, results: bytes, exit_: int) -> SweepRecord:
    status = SKIPPED if not tree else FAILED if why else COMPLETED
    return SweepRecord(status, why if tree else NOTHING_TO_SWEEP, exit_, tree, sha256(results).hexdigest())


def _run(job: Job, what: str, values: Mapping[str, str], wants: bool) -> CheckoutRun:
    where, log = position(job.target.name), job.writes["log"][0]
    at, what = RunLayout(job.target.run), ".".join(filter(None, [calibration_name(job.target.name), what]))
    folder = _output_folder(at, where, "out")
    part = sweep_part(job.target.name)  # those of the root may be at work side by side
    names = [*([part] if part else []), *([] if what == "sweep" else [what])]
    output, checkout = (".".join([each, *names]) for each in (folder, str(where)))
    keep = bool(job.target.params.get("limits", {}).get("keep_checkout"))
    done = run_command(job, CommandRequest(where, checkout, output, values, log, wants, keep, _configs(job)))
    if not done.ok and not isinstance(where, EvalSlot):
        keep_printed(job, log)
        if part == HOLDOUT_PART:
            raise StageFailed(f"the sweep of {where} on what is held out failed: {done.why}", 1)
        raise baseline_failure(job.target.run, what, f"failed: {done.why}")
    if not done.ok and not job.target.params.get("limits", {}).get("keep"):
        delete_tree(output)
    return done


def _output_folder(at: RunLayout, where: EvalSlot | NodePlace, name: str) -> str:
    return at.of_eval(where, name) if isinstance(where, EvalSlot) else at.of_node(where, name)


def baseline_failure(run: str, what: str, why: str) -> StageFailed:
    subject = {"tests": "the tests of the root", "checks": "the checks of the root"}.get(
        what, "the sweep of the root, which all is compared with,"
    )
    commit = load(RunLayout(run).of_run("root.json"))["commit"][:10]
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


def _save_run_cost(job: Job, done: CheckoutRun) -> None:
    """Save the cost, apart from the results since it differs each time; and a log, which a silent command lacks."""
    _save_cost(job, done.cost)


def _save_cost(job: Job, cost: CommandCost) -> None:
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
    lines = io.StringIO(results.decode("utf-8-sig", errors="replace"), newline="")
    try:
        table = [cells for _, cells in csv_rows(lines) if any(cells)]
    except CsvProblem as problem:
        return [], f"line {problem.line} of its results is not CSV: {problem}"
    return [dict(zip(table[0], cells, strict=False)) for cells in table[1:]], ""


def _join_rows(rows: Iterable[str], columns: Iterable[str]) -> bytes:
    """Join the rows of configs; all columns that count are there, even when no config has them."""
    return _csv([{**dict.fromkeys(columns, ""), **cells} for text in rows for cells in _parse_rows(text.encode())[0]])


def _csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Rows as CSV: our columns first, then the others in the order of their appearance."""
    seen = dict.fromkeys(name for row in rows for name in row)
    header = [*COLUMNS, *(name for name in seen if name not in COLUMNS)]
    out = io.StringIO()
    table = csv.DictWriter(out, header, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue().encode()


def check_stage(job: Job) -> None:
    """Run the checks; `tree` goes on to the sweep if they pass."""
    tree, checking = _tree(job), _Checking(job)
    foul = job_void_reason(job, tree)
    found = [*checking.results(tree)] if tree and not foul else []
    why = foul or next((_failure_text(each) for each in found if each["why"]), "")
    if why and not isinstance(checking.where, EvalSlot):
        keep_printed(job, job.writes["log"][0])
        raise baseline_failure(job.target.run, "checks", f"failed: {why}")
    status = SKIPPED if not tree else FAILED if why else COMPLETED
    exit_ = found[-1]["exit"] if found else 0
    save(job.writes["checks"][0], StepRecord(status, why, exit_, found))
    write(job.writes["tree"][0], "" if why else tree)
    _save_cost(job, total_cost([each.cost for each in checking.runs or [NOTHING_RAN]]))


def _failure_text(result: Record) -> str:
    return str(result["why"] if result["why"].startswith(VOID) else f"{result['name']}: {result['why']}")


class _Checking:
    """Runs the checks of one candidate, or of the root."""

    def __init__(self, job: Job) -> None:
        self.job, self.where, self.at = job, position(job.target.name), RunLayout(job.target.run)
        self.runs: list[CheckoutRun] = []

    def results(self, tree: str) -> Iterator[Record]:
        for number, check in enumerate(self.job.target.params["checks"]):
            job = _check_job(self.job, number)
            why, more = self._canary(job, check, tree) if check["canary"] else self._command(job, check)
            yield {"name": check["name"], "status": FAILED if why else COMPLETED, "why": why, **more}
            if why:
                return

    def _command(self, job: Job, check: Mapping[str, Any]) -> tuple[str, Record]:
        done = self._run(job, check["name"], check["name"], wants=False)
        return done.why, {"exit": done.exit}

    def _canary(self, job: Job, check: Mapping[str, Any], tree: str) -> tuple[str, Record]:
        canary, name = Canary(**check["canary"]), check["name"]
        content, data = _canary_data(job, name, canary)
        folder = self._out(f"{name}.data")
        cut = f"{folder}/{os.path.basename(job.reads[f'in.{canary.port}'][0])}"

        def run(until: str) -> CheckoutRun:
            if until == data.last:
                return self._run(job, name, f"{name}, all data", wants=True)
            os.makedirs(folder, exist_ok=True)
            write(cut, data.until(until).encode(errors="surrogateescape"))
            reads = {**job.reads, f"in.{canary.port}": [cut]}
            return self._run(job._replace(reads=reads), name, f"{name}, data up to {until}", wants=True)

        try:
            done = run_canary(canary, data, f"{sha256(content).hexdigest()} {tree}", run)
        finally:
            delete_tree(folder)
        found = [each._asdict() for each in done.cuts]
        return done.why, {"exit": done.exit, "decisions": done.decisions, "cuts": found}

    def _run(self, job: Job, name: str, words: str, wants: bool) -> CheckoutRun:
        log, output = job.writes["log"][0], self._out(name)
        note_in_log(log, words)
        done = run_command(job, CommandRequest(self.where, f"{self.where}.checks", output, {}, log, wants))
        if not done.ok:
            delete_tree(output)
        self.runs.append(done)
        return done

    def _out(self, name: str) -> str:
        return _output_folder(self.at, self.where, f"out.checks.{name}")


def _check_job(job: Job, number: int) -> Job:
    """The job of one check, as if its command were all that there is to do."""
    check, timeout = job.target.params["checks"][number], job.target.params["limits"]["timeouts"][number]
    own = f"in.{check['name']}."
    reads = {f"in.{port.removeprefix(own)}": paths for port, paths in job.reads.items() if port.startswith(own)}
    reads |= {port: job.reads[port] for port in ("tree", PROTECTED_PORT) if port in job.reads}
    sealed = {"limits": {"sealed": job.target.params["limits"].get("sealed", [])}}
    target = job.target._replace(params={**check, **sealed}, limits=job.target.limits._replace(timeout=timeout))
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
