"""The stage that scores a candidate: against its parent for the gate, against the root for the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.edge.job import Papers
from pipeline.tree.gate import COMPLETED, FAILED, Evaluation
from pipeline.tree.records import load, name_of, read_bytes, save
from pipeline.tree.results import Checked, Expected, Sheet, complete, expected, read
from pipeline.tree.scoring import score
from pipeline.tree.slots import ROOT, Slot
from pipeline.tree.verdicts import rules_of, summary_of

NO_SLOT = Slot(*ROOT, 0)  # a summary has no position


def judge(job: Papers) -> None:
    save(job.writes["summary"][0], summary_of(_evaluation(job)))


def _evaluation(job: Papers) -> Evaluation:
    params, candidate = job.target.params, load(job.reads["candidate"][0])
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
        return made
    wanted = wanted_of(params, root)
    texts = {"own": own, "parent": parent, "root": root}
    sides = {name: complete(sheet(params, text), wanted) for name, text in texts.items()}
    made = made._replace(
        defects=tuple(_defects(sides)), rows_used=sides["own"].rows_used, rows_expected=len(wanted.ids)
    )
    if made.defects:
        return made
    return made._replace(score=score(rules_of(params), sides["own"], sides["parent"], sides["root"]))


def _status(job: Papers, candidate: Mapping[str, Any]) -> tuple[str, str]:
    """What it failed at first."""
    steps = [("", candidate), *(("tests: ", load(path)) for path in job.reads["test"])]
    steps.append(("sweep: ", load(job.reads["sweep"][0])))
    for what, record in steps:
        if record["status"] != COMPLETED:
            return record["status"] if not what else FAILED, f"{what}{record['why']}"
    return COMPLETED, ""


def _defects(sides: Mapping[str, Checked]) -> Iterator[str]:
    whose = {"own": "", "parent": "the parent's ", "root": "the root's "}
    for name, checked in sides.items():
        yield from (f"{whose[name]}{defect}" for defect in checked.defects)


def sheet(params: Mapping[str, Any], csv: bytes) -> Sheet:
    return read(csv.decode(errors="replace"), [metric["name"] for metric in params["metrics"]])


def wanted_of(params: Mapping[str, Any], root: bytes) -> Expected:
    return expected(params["sweep_config_limit"], params["grid"], sheet(params, root))
