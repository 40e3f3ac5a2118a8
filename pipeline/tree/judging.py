"""Stages that compare a candidate with its parent, for the gate, and with the root, for the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from pipeline.edge.job import Papers
from pipeline.tree.gate import COMPLETED, FAILED, Evaluation
from pipeline.tree.pairs import by_block, other_seeds
from pipeline.tree.records import load, name_of, read_bytes, save
from pipeline.tree.results import Checked, Expected, complete, expected, few
from pipeline.tree.scoring import score
from pipeline.tree.sheet import Sheet, read
from pipeline.tree.slots import NO_SLOT
from pipeline.tree.touching import VOID
from pipeline.tree.verdicts import rules_of, summary_of


class Sides(NamedTuple):
    """All that a comparison is made from: the rows of three states of the code, each complete."""

    own: Checked
    parent: Checked
    root: Checked
    wanted: Expected


def judge(job: Papers) -> None:
    """By the means of all rows."""
    made, sides = compared(job)
    if sides:
        made = made._replace(score=score(rules_of(job.target.params), sides.own, sides.parent, sides.root))
    save(job.writes["summary"][0], summary_of(made))


def pair(job: Papers) -> None:
    """What a verdict by blocks is made from, once all of the depth is there."""
    made, sides = compared(job, job.target.params.get("first", 0))
    if sides and (seeds := tuple(map(str, other_seeds(sides.own, sides.parent)))):
        made, sides = made._replace(defects=few(seeds)), None
    record = {**summary_of(made), "blocks": [], "series": {}}
    if sides:
        record["blocks"] = [*sides.wanted.blocks]
        record["series"] = {metric["name"]: series_of(sides, metric["name"]) for metric in job.target.params["metrics"]}
    save(job.writes["pairs"][0], record)


def series_of(sides: Sides, metric: str) -> dict[str, list[float]]:
    rows = {"own": sides.own, "parent": sides.parent, "root": sides.root}
    return {name: by_block(checked.rows, sides.wanted.blocks, metric) for name, checked in rows.items()}


def compared(job: Papers, first: int = 0) -> tuple[Evaluation, Sides | None]:
    """How far the evaluation came; and what it is compared with, if that is complete.

    `first`: on so many of the blocks only; so it is with one that was stopped after them."""
    params, candidate = job.target.params, load(job.reads["candidate"][0])
    first = first or stopped_after(load(job.reads["sweep"][0]))
    status, why = _status(job, candidate)
    own, parent, root = (read_bytes(job.reads[port][0]) for port in ("csv", "parent", "root"))
    made = Evaluation(
        NO_SLOT,
        status,
        why,
        candidate["commit"],
        candidate["tree"],
        candidate["approved"],
        name_of(own),
        name_of(parent),
    )
    if status != COMPLETED or not own or not parent:
        return made, None
    baselines = [_baseline(text, *_columns(params)) for text in (parent, root)]
    whole = wanted_by(params, baselines[1])
    wanted = whole.first(first)
    old = [complete(each, whole) for each in baselines]  # these were measured on all blocks
    sides = Sides(complete(sheet(params, own), wanted), old[0], old[1], wanted)
    made = made._replace(defects=few(_defects(sides)), rows_used=sides.own.rows_used, rows_expected=wanted.rows)
    return made, None if made.defects else sides


def stopped_after(sweep: Mapping[str, Any]) -> int:
    """How many blocks a candidate was measured on, if it was stopped by the cascade."""
    return int(sweep.get("stopped_after", 0))


def _status(job: Papers, candidate: Mapping[str, Any]) -> tuple[str, str]:
    """What it failed at first."""
    steps = [("", candidate), *(("tests: ", load(path)) for path in job.reads["test"])]
    steps += [("checks: ", load(path)) for path in job.reads["checks"]]
    steps.append(("sweep: ", load(job.reads["sweep"][0])))
    for what, record in steps:
        if record["status"] != COMPLETED:
            where = "" if record["why"].startswith(VOID) else what
            return record["status"] if not what else FAILED, f"{where}{record['why']}"
    return COMPLETED, ""


def _defects(sides: Sides) -> Iterator[str]:
    for whose, checked in (("", sides.own), ("the parent's ", sides.parent), ("the root's ", sides.root)):
        yield from (f"{whose}{defect}" for defect in checked.defects)


def sheet(params: Mapping[str, Any], csv: bytes) -> Sheet:
    return _sheet(csv, *_columns(params))


def _sheet(csv: bytes, metrics: tuple[str, ...], block: str) -> Sheet:
    return read(csv.decode(errors="replace"), metrics, block)


# Many candidates in a row are compared with the same few nodes.
_baseline = lru_cache(maxsize=8)(_sheet)


def _columns(params: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Those that count, and the one that tells blocks apart."""
    names = tuple(metric["name"] for metric in params["metrics"])
    return names, params["blocks"]["column"] if params["blocks"] else ""


def wanted_of(params: Mapping[str, Any], root: bytes) -> Expected:
    return wanted_by(params, sheet(params, root))


def wanted_by(params: Mapping[str, Any], root: Sheet) -> Expected:
    blocks = params["blocks"]["ids"] if params["blocks"] else ()
    found = expected(params["sweep_config_limit"], params["grid"], root, blocks)
    return found.of(params["config_ids"]) if "config_ids" in params else found
