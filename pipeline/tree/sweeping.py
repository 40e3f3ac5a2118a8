"""Stages that measure code: its tests, its sweep as one command or a row at a time.

What they make follows from the tree of files that they measure; in which slot that is does not matter."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pipeline.edge.git.folders import delete
from pipeline.edge.job import Job, Papers, StageFailed
from pipeline.tree.commands import NOTHING_RAN, Errand, Ran, keep_printed, ran
from pipeline.tree.gate import COMPLETED, FAILED, SKIPPED
from pipeline.tree.layout import Layout
from pipeline.tree.positions import HOLDOUT, again, part_of, position
from pipeline.tree.records import Record, load, read_bytes, read_text, save, write
from pipeline.tree.sheet import OK
from pipeline.tree.slots import Slot
from pipeline.tree.touching import VOID

COLUMNS = ("config_id", "params", "seed", "status", "error")
NOTHING_TO_SWEEP = "there is no code to measure"


def test(job: Job) -> None:
    """`tree` of what passed goes on to the sweep; of what did not, nothing does."""
    tree = _tree(job)
    done = _run(job, "tests", {}, wants=False) if tree else NOTHING_RAN
    status = SKIPPED if not tree else COMPLETED if done.ok else FAILED
    save(job.writes["test"][0], {"status": status, "why": done.why, "exit": done.exit})
    write(job.writes["tree"][0], tree if done.ok else "")
    _cost(job, done)


def sweep(job: Job) -> None:
    tree = _tree(job)
    if "dry" in job.target.params:
        from pipeline.tree.dry import results

        done = NOTHING_RAN._replace(results=results(tree, job.target.params["dry"]) if tree else b"")
    else:
        done = _run(job, "sweep", _values(job), wants=True) if tree else NOTHING_RAN
    write(job.writes["csv"][0], done.results)
    save(job.writes["sweep"][0], swept(tree, done.why, done.results, done.exit))
    _cost(job, done)


def row(job: Job) -> None:
    """One config; a failure is a row that says so."""
    params, tree = job.target.params, _tree(job)
    config = str(params["config_id"])
    values = {name: _text(value) for name, value in params["values"].items()}
    values |= _values(job) | {"config_id": config, "config": json.dumps(params["values"], sort_keys=True)}
    done = _run(job, f"rows-{config}", values, wants=True) if tree else NOTHING_RAN
    write(job.writes["csv"][0], _rows(params, done) if tree else b"")
    _cost(job, done)


def gather(job: Papers) -> None:
    tree = _tree(job)
    rows = [read_text(path) for path in job.reads["csv"]]
    void = next(filter(None, map(_void, rows)), "")
    results = _joined(rows, job.target.params["columns"]) if tree and not void else b""
    write(job.writes["csv"][0], results)
    save(job.writes["sweep"][0], swept(tree, void, results, 0))
    write(job.writes["log"][0], b"".join(map(read_bytes, job.reads["log"])))
    save(job.writes["cost"][0], costs_of([load(path) for path in job.reads["cost"]]))


def costs_of(costs: Sequence[Record]) -> Record:
    """Of several commands as if they were one."""
    seconds, attempts = sum(cost["seconds"] for cost in costs), max(cost["attempts"] for cost in costs)
    exit_ = next((cost["exit"] for cost in costs if cost["exit"]), 0)
    shield = {name: cost[name] for cost in costs for name in cost if name == "shield"}
    return {"seconds": round(seconds, 3), "attempts": attempts, "exit": exit_, **shield}


def _void(row: str) -> str:
    """Why this row makes void what all of them say."""
    errors = (cells.get("error", "") for cells in _given(row.encode())[0])
    return next((error for error in errors if error.startswith(VOID)), "")


def _tree(job: Papers) -> str:
    return read_text(job.reads["tree"][0]).strip()


def swept(tree: str, why: str, results: bytes, exit_: int) -> Record:
    """What ties code and results together."""
    status = SKIPPED if not tree else FAILED if why else COMPLETED
    why = why if tree else NOTHING_TO_SWEEP
    return {"status": status, "why": why, "exit": exit_, "tree": tree, "csv_sha256": sha256(results).hexdigest()}


def _run(job: Job, what: str, values: Mapping[str, str], wants: bool) -> Ran:
    where, log = position(job.target.name), job.writes["log"][0]
    at, what = Layout(job.target.run), ".".join(filter(None, [again(job.target.name), what]))
    folder = at.of_eval(where, "out") if isinstance(where, Slot) else at.of_node(where, "out")
    part = part_of(job.target.name)  # those of the root may be at work side by side
    names = [*([part] if part else []), *([] if what == "sweep" else [what])]
    output, checkout = (".".join([each, *names]) for each in (folder, str(where)))
    done = ran(job, Errand(where, checkout, output, values, log, wants, _keeps_checkout(job), _configs(job)))
    if not done.ok and not isinstance(where, Slot):
        keep_printed(job, log)
        if part == HOLDOUT:
            raise StageFailed(f"the sweep of {where} on what is held out failed: {done.why}", 1)
        raise no_baseline(job.target.run, what, f"failed: {done.why}")
    if not done.ok and not job.target.params.get("limits", {}).get("keep"):
        delete(output)
    return done


def no_baseline(run: str, what: str, why: str) -> StageFailed:
    subject = {"tests": "the tests of the root", "checks": "the checks of the root"}.get(
        what, "the sweep of the root, which all is compared with,"
    )
    commit = load(Layout(run).of_run("root.json"))["commit"][:10]
    again = f"a later commit of a git repository is taken after `coppice forget {run}:root`"
    return StageFailed(f"{subject} {why}; it is commit {commit}: {again}", 1)


def _keeps_checkout(job: Job) -> bool:
    return bool(job.target.params.get("limits", {}).get("keep_checkout"))


def _values(job: Job) -> dict[str, str]:
    params = job.target.params
    given = {name: str(params[name]) for name in ("limit", "seed") if name in params}
    return given | ({"blocks": ",".join(params["blocks"])} if "blocks" in params else {})


def _configs(job: Job) -> bytes:
    """Only for a command that asks for them."""
    if "configs" not in job.target.params:
        return b""
    configs = job.target.params["configs"]
    ids = job.target.params.get("config_ids", range(len(configs)))
    rows = [{"config_id": n, **config} for n, config in zip(ids, configs, strict=True)]
    return json.dumps(rows, sort_keys=True).encode()


def _cost(job: Job, done: Ran) -> None:
    """Apart from what was found, since it is different each time.  A command that prints nothing leaves no log."""
    save(job.writes["cost"][0], done.cost())
    if not os.path.exists(job.writes["log"][0]):
        write(job.writes["log"][0], b"")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _rows(params: Mapping[str, Any], done: Ran) -> bytes:
    """Of one config: a row, or one for each block."""
    given, why = _given(done.results) if done.ok else ([], done.why)
    if not why and len(given) != 1 and not (given and "block" in params):
        why = f"{len(given)} rows were written for one config"
    fixed = {"config_id": str(params["config_id"]), "params": json.dumps(params["values"], sort_keys=True)}
    if why:
        return _csv([{**fixed, "status": "error", "error": why}])
    return _csv([{"status": OK, "error": "", **cells, **fixed} for cells in given])


def _given(results: bytes) -> tuple[list[dict[str, str]], str]:
    """The rows, and what is wrong with them: they may be anything."""
    lines = csv.reader(io.StringIO(results.decode("utf-8-sig", errors="replace"), newline=""))
    try:
        table = [cells for cells in lines if any(cells)]
    except csv.Error as error:
        return [], f"line {lines.line_num} of its results is not CSV: {error}"
    return [dict(zip(table[0], cells, strict=False)) for cells in table[1:]], ""


def _joined(rows: Iterable[str], columns: Iterable[str]) -> bytes:
    """With all columns that count, also those of which no config that failed has said anything."""
    return _csv([{**dict.fromkeys(columns, ""), **cells} for text in rows for cells in _given(text.encode())[0]])


def _csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Our columns first, then the others as they come up."""
    seen = dict.fromkeys(name for row in rows for name in row)
    header = [*COLUMNS, *(name for name in seen if name not in COLUMNS)]
    out = io.StringIO()
    table = csv.DictWriter(out, header, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue().encode()
