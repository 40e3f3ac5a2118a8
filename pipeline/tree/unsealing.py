"""The stage that compares the final node with the start on what was held out: once, and for one idea alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.edge.job import Job, StageFailed
from pipeline.tree.judging import Sides, series_of, sheet, wanted_by
from pipeline.tree.paired import ROOT, comparison
from pipeline.tree.pairs import other_seeds
from pipeline.tree.records import read_bytes, save
from pipeline.tree.results import Checked, Expected, complete, told
from pipeline.tree.scoring import PAIRED, Comparison, weighted_means
from pipeline.tree.sheet import Sheet
from pipeline.tree.verdicts import recommendation, rules_of
from pipeline.tree.weighing import against

ALPHA = 0.05  # of one look at one idea: whatever the search has spent


def unseal(job: Job) -> None:
    params = job.target.params
    sheets = [_held(params, sheet(params, read_bytes(job.reads[port][0]))) for port in ("root", "own")]
    wanted = wanted_by(params, sheets[0])
    root, own = (complete(each, wanted) for each in sheets)
    _check_complete(params, root, own)
    found = _compared(params, wanted, root, own)
    record = {"final": params["final"], "source": params["source"], "method": params["method"], "alpha": ALPHA}
    held = {"blocks": [*wanted.blocks] if params["blocks"] else [], "configs": [*wanted.ids]}
    record |= {**held, "rows": wanted.rows, "primary": params["primary"]}
    save(job.writes["verdict"][0], {**record, "comparison": recommendation(found)})


def _held(params: Mapping[str, Any], found: Sheet) -> Sheet:
    """A command that wants a number of configs has measured others too."""
    if "config_ids" not in params:
        return found
    rows = tuple(row for row in found.rows if row.config_id in params["config_ids"])
    defects = tuple(each for each in found.defects if each.config in (None, *params["config_ids"]))
    return found._replace(rows=rows, defects=defects)


def _check_complete(params: Mapping[str, Any], root: Checked, own: Checked) -> None:
    """No mean is taken of what is not whole, here neither."""
    seeds = [*other_seeds(own, root)] if not (root.defects or own.defects) and params["method"] == PAIRED else []
    for whose, defects in (("the start", root.defects), (params["final"], [*own.defects, *seeds])):
        if defects:
            raise StageFailed(f"what is held out was not measured in full of {whose}: {told(defects)}", 1)


def _compared(params: Mapping[str, Any], wanted: Expected, root: Checked, own: Checked) -> Comparison:
    rules = rules_of(params)
    if rules.paired is None:
        return weighted_means(rules, root, own)
    series = {metric.name: series_of(Sides(own, root, root, wanted), metric.name) for metric in rules.metrics}
    pairs: dict[str, Any] = {"series": series, "blocks": [*wanted.blocks]}
    found = against(_sized(params, wanted.blocks), {"final": pairs}, ROOT, ALPHA)
    return comparison(rules, series, ROOT, found["ideas"]["final"], wanted.rows)


def _sized(params: Mapping[str, Any], blocks: Sequence[str]) -> dict[str, Any]:
    return {**params, "blocks": {**params["blocks"], "ids": [*blocks]}}
