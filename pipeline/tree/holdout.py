"""Holdout of a search: compare the final node with the start on unseen data.

The final node is compared with the start on blocks or configs that the search never saw: once, and for one idea alone,
so alpha is that of a single look whatever the search has spent.  The seal itself is in `run/seal.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.machine.job import Job, StageFailed
from pipeline.store.files import read_bytes
from pipeline.tree.report.run_records import RunRecords
from pipeline.tree.report.summary import holdout_lines
from pipeline.tree.rules.positions import NodePlace, parse_place, parse_slot
from pipeline.tree.rules.scoring import AGAINST_ROOT, PAIRED, paired_comparison, seed_defects, weighted_means
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, Sheet, check_rows, defects_text
from pipeline.tree.run.records import Record, load, recommendation, save, scoring_rules
from pipeline.tree.run.seal import open_seal, seal_record
from pipeline.tree.run.verdicts import ComparisonSides, block_series, expected_by_sheet, sheet_of, weigh_against
from pipeline.tree.spec.model import Params, TreeSpec
from pipeline.tree.targets.builder import TargetBuilder, planned_config
from pipeline.tree.targets.sweeps import holdout_targets

HOLDOUT_ALPHA = 0.05  # for one look at one idea, whatever the search has spent


def holdout_stage(job: Job) -> None:
    params = job.target.params
    sheets = [_held_out_rows(params, sheet_of(params, read_bytes(job.reads[port][0]))) for port in ("root", "own")]
    wanted = expected_by_sheet(params, sheets[0])
    root, own = (check_rows(each, wanted) for each in sheets)
    seeds = [*seed_defects(own, root)] if not (root.defects or own.defects) and params["method"] == PAIRED else []
    for where, defects in (("the start", root.defects), (params["final"], [*own.defects, *seeds])):
        if defects:
            raise StageFailed(f"what is held out was not measured in full of {where}: {defects_text(defects)}", 1)
    record = {name: params[name] for name in ("final", "source", "method", "primary")} | {"alpha": HOLDOUT_ALPHA}
    record |= {"blocks": [*wanted.blocks] if params["blocks"] else [], "configs": [*wanted.ids], "rows": wanted.rows}
    save(job.writes["verdict"][0], record | {"comparison": _holdout_comparison(params, wanted, root, own)})


def _held_out_rows(params: Params, sheet: Sheet) -> Sheet:
    """The rows of held-out configs: a command that wants a number of configs has measured others too."""
    if "config_ids" not in params:
        return sheet
    rows = tuple(row for row in sheet.rows if row.config_id in params["config_ids"])
    defects = tuple(each for each in sheet.defects if each.config in (None, *params["config_ids"]))
    return sheet._replace(rows=rows, defects=defects)


def _holdout_comparison(params: Params, wanted: ExpectedRows, root: CheckedRows, own: CheckedRows) -> Record:
    rules, sides = scoring_rules(params), ComparisonSides(own, root, root, wanted)
    if rules.paired is None:
        return recommendation(weighted_means(rules, root, own))
    series = {metric.name: block_series(sides, metric.name) for metric in rules.metrics}
    params = {**params, "blocks": {**params["blocks"], "ids": [*wanted.blocks]}}
    pairs: dict[str, Any] = {"series": series, "blocks": [*wanted.blocks]}
    evidence = weigh_against(params, {"final": pairs}, AGAINST_ROOT, HOLDOUT_ALPHA)["ideas"]["final"]
    return recommendation(paired_comparison(rules, series, AGAINST_ROOT, evidence, wanted.rows))


__all__ = ["REPORT_TARGETS", "holdout_lines", "open_seal", "question", "seal_record", "sources", "targets"]

# Targets that report on a search, and must report the holdout too.
REPORT_TARGETS = ("report", "validate")


def question(run: str, spec: TreeSpec, planned: Sequence[Target]) -> Record:
    """The question: is the final node better than the start on blocks or configs that the search has not seen?"""
    held, records = spec.holdout, RunRecords(run, planned_config(planned))
    if held is None:
        raise SpecError(f"{run}: its spec has no `holdout:`; name blocks or configs there before the search begins")
    if spec.dry_run:
        raise SpecError(f"{run}: a dry run measures nothing that could be held out")
    best = [(place := NodePlace(d + 1, 0), each["beam"][str(place)]) for d, each in records.promotions.items()]
    promoted = [(place, beam["promoted_from_eval_id"]) for place, beam in best if beam["promoted_from_eval_id"]]
    if not promoted:
        raise SpecError(f"{run}: nothing was promoted, and the start is not better than itself; the seal stays closed")
    final, source = promoted[-1]
    code, root = load(records.at.of_node(final, "code.json")), load(records.at.of_run("root.json"))
    return {
        "final": str(final),
        "source": source,
        "commit": code["commit"],
        "tree": code["tree"],
        "root_tree": root["tree"],
        "blocks": [*held.blocks],
        "configs": [*held.configs],
        "reads": {port: [*paths] for port, paths in held.reads.items()},
    }


def targets(spec: TreeSpec, asked: Mapping[str, Any]) -> list[Target]:
    assert spec.holdout is not None
    final, source = parse_place(asked["final"]), parse_slot(asked["source"])
    return [*holdout_targets(TargetBuilder(spec), spec.holdout, final, source)]


def sources(spec: TreeSpec) -> list[str]:
    paths = [path for group in (spec.holdout.reads.values() if spec.holdout else ()) for path in group]
    parts = [path.split("/") for path in paths if path.startswith("runs/")]
    return sorted({part[1] for part in parts if len(part) > 2} - {spec.name})
