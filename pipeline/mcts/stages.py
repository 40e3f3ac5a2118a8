"""Stages of an mcts run: the table by name, and those before and after the searches.

Before: rows of the bank, which of them are goals, and what the ledger knows of tactics. After: all searches
compared."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict

from pipeline.goals.bank import Bank, goal_from_json, read_bank
from pipeline.goals.check import check_bank
from pipeline.lean.backends import table as backends
from pipeline.lean.backends.table import shared_lean, with_lean_faults
from pipeline.machine.job import Job, JobFiles, Stage, StageFailed, input_path, output_path
from pipeline.mcts.plan import ROW_INDEX, goal_of_target
from pipeline.mcts.report.compare import comparison_record
from pipeline.mcts.report.figures import REFUSED, SearchFigures, row_refusals, searches_csv
from pipeline.mcts.report.page import comparison_page
from pipeline.mcts.search.guides import family_shares
from pipeline.mcts.search_stage import SEARCH_CODE, search_goal
from pipeline.store.files import read_bytes
from pipeline.store.ledger import LedgerReader
from pipeline.store.records import load, save, write

# Of a row, what decides a search; the rest may be edited.
DECIDING_FIELDS = ("text", "context")


def split_bank(job: JobFiles) -> None:
    """Split the bank into rows. Their places stand apart from them: a row that is moved is the same goal."""
    bank = read_bank(read_bytes(input_path(job, "bank")))
    found, asked = {goal.id: asdict(goal) for goal in bank.goals}, job.target.params["goals"]
    for name, path in zip(asked, job.writes["rows"], strict=True):
        if name not in found:
            raise StageFailed(f"the bank has no row '{name}' any more, which was planned for; build again", 1)
        save(path, {field: found[name][field] for field in DECIDING_FIELDS})
    lines = {name: found[name]["line"] for name in asked}
    save(output_path(job, ROW_INDEX), {"refused": [asdict(each) for each in bank.refused], "lines": lines})


def check_goal(job: Job) -> None:
    """Check a row: its goal with the key, or why it is none."""
    row = load(input_path(job, "row"))
    found = check_bank(Bank((goal_from_json({**row, "id": goal_of_target(job.target)}),)), shared_lean(job))
    records = [{REFUSED: each.why} for each in found.refused] or [{**row, "key": each.key} for each in found.goals]
    save(output_path(job, "goal.json"), records[0])


def snapshot_shares(job: Job) -> None:
    toolchain = load(input_path(job, "toolchain.json"))["version"]
    with closing(LedgerReader(job.target.params["ledger"])) as ledger:
        save(output_path(job, "shares.json"), {"shares": family_shares(ledger.attempts_by_key(toolchain).values())})


def write_comparison(job: JobFiles) -> None:
    """Compare all searches; a statement that is there twice counts once."""
    params, rows = job.target.params, load(input_path(job, ROW_INDEX))
    goals = {name: load(path) for name, path in zip(params["goals"], job.reads["goals"], strict=True)}
    refused = {each.id: {"status": REFUSED, "error": each.why} for each in row_refusals({**rows, "refused": []}, goals)}
    searches = [
        SearchFigures(scenario, seed, goal, **{**load(path), **refused.get(goal, {})})
        for (scenario, seed, goal), path in zip(params["cells"], job.reads["summaries"], strict=True)
    ]
    lean, known = load(input_path(job, "toolchain.json")), {name: params[name] for name in ("bank", "budget", "shared")}
    comparison = comparison_record(params["scenarios"], searches, {"lean": lean, **known}, rows["refused"])
    # scenarios in the order of the spec, which sorted keys would lose
    write(output_path(job, "comparison.json"), json.dumps(comparison, indent=1, ensure_ascii=False) + "\n")
    write(output_path(job, "comparison.csv"), searches_csv(searches))
    write(output_path(job, "comparison.html"), comparison_page(job.target.run, comparison))


STAGES = {
    **backends.STAGES,
    "rows": Stage("mcts.rows/1", split_bank),
    "goal": Stage("mcts.goal/1", with_lean_faults(check_goal)),
    "shares": Stage("mcts.shares/1", with_lean_faults(snapshot_shares)),
    "search": Stage(SEARCH_CODE, with_lean_faults(search_goal)),
    "compare": Stage("mcts.compare/2", write_comparison),
}
