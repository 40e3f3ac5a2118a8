"""Obstacles: what keeps a search from going on, and stands in no manifest, such as a target that failed.

A manifest has the evaluations that failed by their candidate's fault.  Targets that failed by any other, which may be
those of the start, are told by the receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.core.freshness import FailureRecord
from pipeline.core.graph import Target
from pipeline.core.projection import Column, Row, Table
from pipeline.core.text import plural
from pipeline.store.receipts import Receipts
from pipeline.tree.report.figures import Manifest, idea_status
from pipeline.tree.report.happenings import MOST_WHY
from pipeline.tree.report.markdown import BLANK, clip_text, table_cell
from pipeline.tree.rules.beam import FAILED
from pipeline.tree.rules.positions import find_slot, own_name
from pipeline.tree.run.records import EVENT_FAILED

TITLE_WIDTH, WHY_WIDTH = 80, 300  # characters


class FailedTarget(NamedTuple):
    """A target that failed, by its name without the run."""

    name: str
    stage: str
    record: FailureRecord


class Obstacles(NamedTuple):
    failed: Sequence[FailedTarget] = ()


NO_OBSTACLES = Obstacles()


def obstacles_of(run: str, targets: Sequence[Target]) -> Obstacles:
    failures = Receipts(run).failures()
    own = [(each, failures[each.name]) for each in targets if each.name in failures]
    return Obstacles([FailedTarget(own_name(each.name), each.stage, why) for each, why in own if not why.outage])


def failure_table(manifest: Manifest, obstacles: Obstacles) -> Iterator[Table]:
    """Failures, by a candidate's fault or by a target's; nothing where there are none."""
    told = {event["eval_id"]: event for event in manifest["events"] if event["event"] == EVENT_FAILED}
    rows, known = [], set()
    for name, each in manifest["evaluations"].items():
        error = each["error"]
        if not error and each["task_state"] == FAILED and name in told:
            error = told[name].get("error")
        if error:
            known.add((name, error.get("stage")))
            cells = [
                name,
                _title(manifest, name),
                error.get("stage") or BLANK,
                clip_text(error.get("why") or "", MOST_WHY),
            ]
            end = [str(error["exit"]) if error.get("exit") else BLANK, error.get("log") or BLANK]
            rows.append(Row([*cells[:3], cells[3] or BLANK, *end], name, idea_status(each, False, False)))
    for name, stage, record in obstacles.failed:
        if (slot := str(find_slot(name)), stage) not in known:
            cells = [name, _title(manifest, slot), stage, clip_text(record.why, MOST_WHY)]
            rows.append(Row([*cells, str(record.exit or BLANK), record.log or BLANK], name, "failed"))
    if rows:
        header = [Column(each) for each in ("place", "idea", "stage", "why")]
        header += [Column("exit", True), Column("log")]
        sentence = "What failed, at which stage and why: evaluations, and targets by a fault that is no candidate's."
        yield Table("failures", "Failures", sentence, header, rows)


def _title(manifest: Manifest, slot: str) -> str:
    each = manifest["evaluations"].get(slot)
    return (each and clip_text(each["idea_title"], TITLE_WIDTH)) or BLANK


def failed_text(count: int, obstacles: Obstacles) -> str:
    """The targets of the last build that failed, of which the first one is named."""
    first = next(iter(obstacles.failed), None)
    named = f": {first.name}: {clip_text(first.record.why, WHY_WIDTH)}" if first else ""
    return f"{plural(count, 'target')} of the last build failed{named}"


def obstacle_lines(obstacles: Obstacles) -> Iterator[str]:
    """The failed targets as a list, for a summary."""
    for name, _, record in obstacles.failed:
        log = f" (log: {record.log})" if record.log else ""
        yield f"- {name}: {table_cell(clip_text(record.why, MOST_WHY))}{log}"
