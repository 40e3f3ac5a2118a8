"""Obstacles: what keeps a search from going on, and stands in no manifest: targets that failed, answers of a person.

A manifest has the evaluations that failed by their candidate's fault.  Targets that failed by any other, which may be
those of the start, are told by the receipts; what a person is to answer, by the records of a slot and his folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.core.freshness import FailureRecord
from pipeline.core.graph import Target
from pipeline.core.outcome import OUTAGE_WORDS
from pipeline.core.projection import Column, Moment, Row, Table
from pipeline.core.text import BLANK, plural
from pipeline.store.receipts import Receipts
from pipeline.tree.report.figures import Manifest, idea_status
from pipeline.tree.report.happenings import MOST_WHY, wait_rows
from pipeline.tree.report.live import event_fault
from pipeline.tree.report.markdown import clip_text, markdown_table, table_cell
from pipeline.tree.rules.beam import FAILED
from pipeline.tree.rules.positions import BY_HAND, EVENTS, RunLayout, find_slot, own_name
from pipeline.tree.run.records import EVENT_FAILED, load_if_intact
from pipeline.tree.spec.model import MANUAL, shape_of
from pipeline.tree.targets.builder import planned_config

TITLE_WIDTH, WHY_WIDTH = 80, 300  # characters
IDEA, CHANGE = "idea", "change"
AWAITED_HEADER = ("slot", "awaits", "file", "command")


class FailedTarget(NamedTuple):
    """A target that failed, by its name without the run."""

    name: str
    stage: str
    record: FailureRecord


class AwaitedAnswer(NamedTuple):
    """An answer that a person is to give: `what` it is, the `path` where it is to be, the `idea` that it is about, and
    the `worktree` in which it may be made."""

    slot: str
    what: str
    path: str
    idea: str = ""
    worktree: str = ""


class SearchObstacles(NamedTuple):
    failed: Sequence[FailedTarget] = ()
    awaited: Sequence[AwaitedAnswer] = ()
    events: str = ""  # what is wrong with the log of events


NO_OBSTACLES = SearchObstacles()


def obstacles_of(run: str, targets: Sequence[Target]) -> SearchObstacles:
    failures = Receipts(run).failures()
    own = [(each, failures[each.name]) for each in targets if each.name in failures]
    failed = [FailedTarget(own_name(each.name), each.stage, why) for each, why in own if not why.outage]
    return SearchObstacles(failed, [*awaited_answers(run, targets)], event_fault(run))


def awaited_answers(run: str, targets: Sequence[Target]) -> Iterator[AwaitedAnswer]:
    """The answers that a person is to give, in the order of the slots; none where no role is `manual`."""
    config, at = planned_config(targets), RunLayout(run)
    if MANUAL not in (config["backends"]["ideas"], config["backends"]["coder"]):
        return
    reads = {target.name: dict(target.reads) for target in targets if target.stage in ("idea", "by_hand")}
    for slot in shape_of(config).all_slots():
        (ideas, *_) = reads.get(f"{run}:{slot}.idea", {}).get("ideas_folder", ("",))
        (coder, *_) = reads.get(f"{run}:{slot}.change", {}).get("coder_folder", ("",))
        context = load_if_intact(at.of_node(slot.place, "context.json")) if ideas else None
        path = f"{ideas}/{slot}.md"
        if context is not None and not context["closed"] and not os.path.exists(path):
            yield AwaitedAnswer(str(slot), IDEA, path)
        task = load_if_intact(at.of_eval(slot, "task.json")) if coder else None
        path, tree = f"{coder}/{slot}.patch", at.of_run(f"{BY_HAND}/{slot}")
        if task is not None and not task["empty"] and not os.path.exists(path):
            yield AwaitedAnswer(str(slot), CHANGE, path, task["idea"], tree if os.path.isdir(tree) else "")


def failure_table(manifest: Manifest, obstacles: SearchObstacles) -> Iterator[Table]:
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


def failed_text(count: int, obstacles: SearchObstacles) -> str:
    """The targets of the last build that failed, of which the first one is named."""
    first = next(iter(obstacles.failed), None)
    named = f": {first.name}: {clip_text(first.record.why, WHY_WIDTH)}" if first else ""
    return f"{plural(count, 'target')} of the last build failed{named}"


def outage_table(manifest: Manifest) -> Iterator[Table]:
    """The times for which something was out; nothing where nothing was."""
    if waits := wait_rows(manifest["events"]):
        names = ("since", "what was out", "pauses", "waited", "until")
        columns = [Column(name, name == "pauses") for name in names]
        yield Table("outages", "Outages", f"{plural(len(waits), 'outage')}: nothing of it became a result.", columns,
                    [Row(cells, status="" if is_over else "waiting") for cells, is_over in waits])  # fmt: skip


def awaited_table(manifest: Manifest, obstacles: SearchObstacles) -> Iterator[Table]:
    """The slots that wait for a person, each with what to type."""
    if not obstacles.awaited or is_over(manifest):
        return
    run, known = manifest["tree_run_id"], manifest["evaluations"]
    rows = [
        Row([slot, what, path, f"coppice answer {run} {slot} FILE"], slot if slot in known else "", "waiting")
        for slot, what, path, *_ in obstacles.awaited
    ]
    sentence = f"Awaited of a person: {plural(len(rows), 'answer')}; {_how(run)}."
    yield Table("awaited", "Answers awaited", sentence, [Column(each) for each in AWAITED_HEADER], rows)


def _how(run: str) -> str:
    return f"`coppice answer {run}` tells what each is about, and `coppice {run}` goes on with those that are there"


def awaited_lines(manifest: Manifest, obstacles: SearchObstacles) -> list[str]:
    if not obstacles.awaited or is_over(manifest):
        return []
    run = manifest["tree_run_id"]
    rows = [[slot, what, path, f"coppice answer {run} {slot} FILE"] for slot, what, path, *_ in obstacles.awaited]
    return [f"Awaited of a person; {_how(run)}.", "", *markdown_table(AWAITED_HEADER, rows)]


def is_over(manifest: Manifest) -> bool:
    """Check that a search has stopped, for another reason than that something is out."""
    reason = manifest["state"]["stop_reason"]
    return bool(reason) and reason not in OUTAGE_WORDS


def missing_events(manifest: Manifest, moment: Moment, obstacles: SearchObstacles) -> list[str]:
    """A sentence that events are missing, of a search that had some; a build may be about to write the last one."""
    if not obstacles.events or not manifest["nodes"] or moment.is_building:
        return []
    path = RunLayout(manifest["tree_run_id"]).of_run(EVENTS)
    return [f"Events are missing: {path} {obstacles.events}. What they told, such as times and builds, nobody knows."]


def obstacle_lines(obstacles: SearchObstacles) -> Iterator[str]:
    """The failed targets as a list, for a summary."""
    for name, _, record in obstacles.failed:
        log = f" (log: {record.log})" if record.log else ""
        yield f"- {name}: {table_cell(clip_text(record.why, MOST_WHY))}{log}"
