"""A search one depth at a time: the targets that end a depth, the state of the search, reports on demand.

Depths after the stop of a search are only empty records."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence

from pipeline.core.graph import Target
from pipeline.core.projection import Moment
from pipeline.errors import SpecError
from pipeline.machine.lock import is_locked
from pipeline.store.files import write_whole
from pipeline.store.steering import SteeringLog
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.obstacles import obstacles_of
from pipeline.tree.report.summary import summary_text
from pipeline.tree.report.validation import validate_run, validation_report
from pipeline.tree.rules.assignment import NO_NODE
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.positions import EVENTS, MANIFEST, SUMMARY, VALIDATION, RunLayout, depth_of
from pipeline.tree.run.records import Record, load
from pipeline.tree.targets.builder import planned_config


def rounds(targets: Sequence[Target]) -> list[list[str]]:
    """The targets that end each depth: its promotion, and the nodes that come from it."""
    ends: dict[int, list[str]] = {}
    for target in targets:
        if target.stage == "promote":
            ends[depth_of(target.name)] = [target.name]
    for target in targets:
        if target.stage == "node":
            ends[depth_of(target.name) - 1].append(target.name)
    return [ends[depth] for depth in sorted(ends)]


def progress_record(run: str, targets: Sequence[Target], done: int) -> Record:
    """The state after `done` depths; records beyond them are from before an edit of the spec."""
    config = planned_config(targets)
    current, has_ended = _depths_done(run, done)
    found = fold_manifest(run, {**config, "max_depth": current})
    evaluations, promoted = found["evaluations"], []
    for name, node in found["nodes"].items():
        if current and node["depth"] == current:
            source = node["artifacts"]["promoted_from_eval_id"]
            score = evaluations[source]["scoring_summary"]["root_recommendation"]["score"]
            entry = {"node": name, "from_eval": source, "commit": node["commit"]}
            promoted.append(entry | {"idea": node["idea_chain"][-1], "score": score})
    # without slots of places without a node
    counts = Counter(each["status"] for each in evaluations.values() if not each["empty"])
    empty = sum(bool(each["empty"]) and each["empty"] != NO_NODE for each in evaluations.values())
    return {
        "tree_run_id": run,
        "current_depth": current,
        "max_depth": config["max_depth"],
        "stop_reason": found["state"]["stop_reason"] if has_ended else None,
        "promoted": promoted,
        "evaluations": {COMPLETED: counts[COMPLETED], FAILED: counts[FAILED], SKIPPED: empty},
    }


def has_stopped(run: str, done: int) -> bool:
    return _depths_done(run, done)[1]


def _depths_done(run: str, done: int) -> tuple[int, bool]:
    """The number of depths done, up to the stop, and whether there is one."""
    for depth in range(done):
        if load(RunLayout(run).of_depth(depth, "promoted.json"))["stop_reason"]:
            return depth + 1, True
    return done, False


def summarize(run: str, targets: Sequence[Target], done: int) -> None:
    """Write the summary before the end, where a target writes it."""
    config = planned_config(targets)
    found = fold_manifest(run, {**config, "max_depth": done})
    found["run_config"]["max_depth"] = config["max_depth"]
    text = summary_text(found, Moment(True, SteeringLog(run).pause(), time.time()))
    write_whole(RunLayout(run).of_run(SUMMARY), text.encode(errors="replace"), durable=False)


def report(run: str, targets: Sequence[Target]) -> str:
    """Write the summary anew from the records there are; its path."""
    path = RunLayout(run).of_run(SUMMARY)
    _check_begun(run)
    moment = Moment(bool(is_locked(run)), SteeringLog(run).pause(), time.time())
    text = summary_text(fold_manifest(run, planned_config(targets)), moment, obstacles_of(run, targets))
    write_whole(path, text.encode(errors="replace"))
    return path


def validate(run: str, targets: Sequence[Target]) -> tuple[str, int]:
    """Write the validation report; its path, and the number of problems."""
    path, stored, events = (RunLayout(run).of_run(name) for name in (VALIDATION, MANIFEST, EVENTS))
    _check_begun(run)
    found = validate_run(run, planned_config(targets), load(stored) if os.path.exists(stored) else None, events)
    write_whole(path, validation_report(found).encode(errors="replace"))
    return path, len(found.problems)


def _check_begun(run: str) -> None:
    if not os.path.exists(RunLayout(run).of_run("root.json")):
        raise SpecError(f"{run}: nothing is recorded of it yet; `coppice advance {run}` starts it")
