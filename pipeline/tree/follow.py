"""Coordinator of a build: the one writer of events.jsonl, manifest.json, refs and node worktrees.

It is called in the main thread when targets start and end.  Records decide: its files can be made again from them.  For
each evaluation it writes the events of its life (states in `run/records.py`), for the run `searching`, `promotion` and
`stopped`.  At the end it makes refs and worktrees as the manifest has them, and removes all others."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, RECALLED, Outcome
from pipeline.core.text import plural
from pipeline.git.command import GitProblem
from pipeline.git.commits import worktree_head
from pipeline.git.refs import pin, pinned_commits, unpin
from pipeline.git.repository import ROOT as ROOT_REF
from pipeline.store.files import write_whole
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.summary import headline
from pipeline.tree.rules.positions import (
    CANDIDATES,
    EVENTS,
    MANIFEST,
    ROOT,
    SCORING_STAGES,
    SUMMARY,
    EvalSlot,
    RunLayout,
    depth_of,
    parse_position,
    parse_slot,
    position,
    slot_of,
)
from pipeline.tree.run import records
from pipeline.tree.run.records import Record, dump_record, load, load_if_intact
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.run.seal import HOLDOUT_REF, SEARCH_EVENT, searched_parts
from pipeline.tree.targets.builder import planned_config


def keep_git_state(run: str, manifest: Mapping[str, Any]) -> None:
    """Make the refs and worktrees of a run those of its manifest."""
    repo, nodes, evaluations = RunRepo(run), manifest["nodes"], manifest["evaluations"].items()
    wanted = {ROOT_REF: manifest["root"]["root_commit"]} | {name: node["commit"] for name, node in nodes.items()}
    wanted |= {name: each["candidate_commit"] for name, each in evaluations if each["candidate_commit"]}
    pinned = pinned_commits(repo.path, run)
    for name in sorted(pinned.keys() - wanted.keys() - {HOLDOUT_REF}):
        unpin(repo.path, run, name)
    for name in sorted(wanted):
        if pinned.get(name) != wanted[name]:
            pin(repo.path, run, name, repo.commit(ROOT if name == ROOT_REF else parse_position(name)))
    for name in _folders(repo.nodes.folder):
        if name not in nodes:
            repo.nodes.remove(name)
    for name, node in nodes.items():
        if _commit_at(repo, name) != node["commit"]:  # a recalled node has not moved it
            repo.nodes.add(name, node["commit"])
    if not manifest["run_config"]["keep"]["rejected_worktrees"]:
        for name in _folders(repo.at.of_run(CANDIDATES)):
            repo.candidates.remove(name)


def _commit_at(repo: RunRepo, name: str) -> str:
    try:
        return worktree_head(repo.nodes.require(name))
    except GitProblem:
        return ""


def _folders(path: str) -> list[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


PAID_STAGES = ("implement", "test", "checks", "sweep", "row")
SLOT_STAGES = (*PAID_STAGES, "by_hand", "gather", "join", "pair", *SCORING_STAGES)
# A manifest costs time by its size: it is written when this part of it is new, and at the end of the build.
NEW_PART = 1 / 8


class TreeFollower:
    """Follows one build of a run."""

    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self.run, self.at = run, RunLayout(run)
        self.events = self.at.of_run(EVENTS)
        self.config = planned_config(targets)
        self.todo = {slot for target in todo if (slot := _slot_name(target))}
        self.known: dict[str, records.Life] = {}
        for event in records.read_events(self.events):
            if event["event"] in records.TASK_STATES and "eval_id" in event:
                records.note_event(self.known, event)
        self.started_slots: set[str] = set()
        self.changed = False
        self.news = 0
        self.failed = 0
        self._begin()

    def _begin(self) -> None:
        """Queue the evaluations to do, and again those that a killed build had begun."""
        parts = searched_parts(self.config)  # held out later, they would not be fresh
        last = [event for event in records.read_events(self.events) if event["event"] == SEARCH_EVENT][-1:]
        if self.todo and parts not in [{name: event[name] for name in parts} for event in last]:
            records.append_event(self.events, {"event": SEARCH_EVENT, **parts})
        for name, life in sorted(self.known.items()):
            failed = life["task_state"] == records.EVENT_FAILED
            waits = failed and not os.path.exists(self.at.of_eval(parse_slot(name), "summary.json"))
            gone = life["task_state"] == records.RUNNING  # the build that ran it
            if name in self.todo and (gone or waits):
                self._log_event(records.EVENT_REQUEUED, name)
        for depth in range(self.config["max_depth"]):
            self._queue(depth)

    def target_started(self, target: Target, new: bool) -> None:
        slot = _slot_name(target)
        if slot and new and target.stage in PAID_STAGES and slot not in self.started_slots:
            self._start(slot, time.time())

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status not in (BUILT, RECALLED, FAILED):
            return
        self.changed = True
        slot = _slot_name(target)
        if outcome.status == FAILED:
            self.failed += 1
            if slot:
                error = {"stage": target.stage, "why": outcome.why, "exit": outcome.exit, "log": outcome.log}
                self._log_event(records.EVENT_FAILED, slot, error=error)
        elif target.stage in ("assign", "wave"):
            self._queue(depth_of(target.name))
        elif target.stage == "admit":
            self._queue_slot(target)
        elif target.stage == "promote":
            self._log_promotion(target.params["depth"])
        elif slot and target.stage in PAID_STAGES and outcome.status == BUILT and slot not in self.started_slots:
            self._start(slot, outcome.start)
        elif slot and target.stage in SCORING_STAGES:
            self._log_end(slot)

    def finish(self, stopped: bool) -> str:
        """The headline of the search; empty when nothing has changed."""
        if not self.changed:
            return ""
        manifest = self._write_manifest()
        if not stopped and manifest["root"]["root_commit"]:
            keep_git_state(self.run, manifest)
        path = self.at.of_run(SUMMARY)
        where = f" See {path}." if os.path.exists(path) else ""
        if self.failed and manifest["nodes"]:
            return f"Not up to date: {plural(self.failed, 'target')} failed.{where}"
        return f"{headline(manifest)}{where}" if manifest["nodes"] else ""

    def _queue(self, depth: int) -> None:
        assigned = load_if_intact(self.at.of_depth(depth, "assigned.json")) or {"tasks": {}}
        for name, task in assigned["tasks"].items():
            is_new = not task["empty"] and name in self.todo and name not in self.known
            if is_new and (not assigned.get("turns") or self._is_admitted(name)):
                self._log_event(records.EVENT_QUEUED, name)

    def _queue_slot(self, target: Target) -> None:
        """Queue a slot that is admitted in its turn."""
        name = str(slot_of(target.name))
        if name in self.todo and name not in self.known and self._is_admitted(name):
            self._log_event(records.EVENT_QUEUED, name)

    def _is_admitted(self, slot: str) -> bool:
        """Check if a slot has something to do, in its turn or ahead of it."""
        paths = (self.at.of_eval(parse_slot(slot), name) for name in ("task.json", "ahead/task.json"))
        return any(not found["empty"] for path in paths if (found := load_if_intact(path)))

    def _start(self, slot: str, at: float) -> None:
        if self._is_admitted(slot):
            self.started_slots.add(slot)
            self._log_event(records.EVENT_STARTED, slot, at, pid=os.getpid())

    def _log_end(self, slot: str) -> None:
        """Log the end of an evaluation: once for each start, and once when all of it was recalled."""
        life, started = self.known.get(slot), slot in self.started_slots
        if life is None or (not started and life["finished_at"] is not None):
            return
        self.news += 1
        summary = load(self.at.of_eval(parse_slot(slot), "summary.json"))
        ended = records.EVENT_COMPLETED if summary["status"] == "completed" else records.EVENT_FAILED
        error = {"why": summary["why"]} if summary["why"] else None
        self._log_event(ended, slot, recalled=not started, error=error)

    def _log_promotion(self, depth: int) -> None:
        promoted = load(self.at.of_depth(depth, "promoted.json"))
        for node, beam in promoted["beam"].items():
            if beam["promoted_from_eval_id"]:
                records.append_event(self.events, {"event": "promotion", "node_id": node, **beam})
        if promoted["stop_reason"]:
            stopped = {"event": "stopped", "depth": depth, "stop_reason": promoted["stop_reason"]}
            records.append_event(self.events, stopped)
        if self.news >= NEW_PART * len(self.known):
            self._write_manifest()

    def _log_event(self, what: str, eval_id: str, at: float | None = None, **more: Any) -> None:
        event = {"event": what, "eval_id": eval_id, **more}
        records.note_event(self.known, records.append_event(self.events, event, at))

    def _write_manifest(self) -> Record:
        manifest = fold_manifest(self.run, self.config, self.known)
        write_whole(self.at.of_run(MANIFEST), dump_record(manifest), durable=False)
        self.news = 0
        return manifest


def _slot_name(target: Target) -> str:
    """The slot of a target; empty for targets of no evaluation, and for those that get an idea."""
    where = position(target.name) if target.stage in SLOT_STAGES else None
    return str(where) if isinstance(where, EvalSlot) else ""


follower = TreeFollower
