"""The coordinator of a search: the one writer of events.jsonl and manifest.json, and of what is kept in git.

It hears of targets in the main thread.  Records decide: whatever it writes can be made again from them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, RECALLED, Outcome
from pipeline.core.words import plural
from pipeline.edge.files import write_whole
from pipeline.tree import events
from pipeline.tree.event_log import EventLog
from pipeline.tree.keeping import keep
from pipeline.tree.layout import EVENTS, MANIFEST, SUMMARY, Layout
from pipeline.tree.manifest import folded
from pipeline.tree.positions import SCORED, depth_of, position
from pipeline.tree.records import Record, dumped, load, load_if_whole
from pipeline.tree.sealing import SEARCHING, searched
from pipeline.tree.slots import Slot, parse_slot
from pipeline.tree.summary import headline

PAID = ("implement", "test", "checks", "sweep", "row")
STEPS = (*PAID, "by_hand", "gather", "join", "pair", *SCORED)
# A manifest costs what it has in it: it waits until so much of that is new, or for the end of the build.
NEW_PART = 1 / 8


def follower(run: str, targets: Sequence[Target], todo: Sequence[Target]) -> Follower:
    return Follower(run, targets, todo)


class Follower:
    """`new`: whether a target was never built before."""

    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self.run, self.at = run, Layout(run)
        self.log = EventLog(self.at.of_run(EVENTS))
        self.config = next(dict(target.params) for target in targets if target.stage == "report")
        self.todo = {slot for target in todo if (slot := _slot(target))}
        self.known = events.lives(self.log.read())
        self.begun: set[str] = set()
        self.changed = False
        self.news = 0
        self.failed = 0

    def begin(self) -> None:
        """What a killed build had begun waits again."""
        self._note_search()
        for name, life in sorted(self.known.items()):
            waits = not os.path.exists(self.at.of_eval(parse_slot(name), "summary.json"))
            if name in self.todo and (events.is_open(life) or (waits and life["task_state"] == events.FAILED)):
                self._tell(events.REQUEUED, name)
        for depth in range(self.config["max_depth"]):
            self._queue(depth)

    def _note_search(self) -> None:
        """What is going to be measured, as far as the spec says: to hold it out later would make nothing fresh."""
        parts = searched(self.config)
        last = [event for event in self.log.read() if event["event"] == SEARCHING][-1:]
        if self.todo and parts not in [{name: event[name] for name in parts} for event in last]:
            self.log.append({"event": SEARCHING, **parts})

    def started(self, target: Target, new: bool) -> None:
        slot = _slot(target)
        if slot and new and target.stage in PAID and slot not in self.begun:
            self._start(slot, time.time())

    def ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status not in (BUILT, RECALLED, FAILED):
            return
        self.changed = True
        slot = _slot(target)
        if outcome.status == FAILED:
            self.failed += 1
            if slot:
                error = {"stage": target.stage, "why": outcome.why, "exit": outcome.exit, "log": outcome.log}
                self._tell(events.FAILED, slot, error=error)
        elif target.stage == "assign":
            self._queue(depth_of(target.name))
        elif target.stage == "promote":
            self._promoted(target.params["depth"])
        elif slot and target.stage in PAID and outcome.status == BUILT and slot not in self.begun:
            self._start(slot, outcome.start)
        elif slot and target.stage in SCORED:
            self._scored(slot)

    def over(self, stopped: bool) -> str:
        """Where the search stands; nothing when nothing has changed."""
        if not self.changed:
            return ""
        manifest = self._write_manifest()
        if not stopped and manifest["root"]["root_commit"]:
            keep(self.run, manifest)
        path = self.at.of_run(SUMMARY)
        where = f" See {path}." if os.path.exists(path) else ""
        if self.failed and manifest["nodes"]:
            return f"Not up to date: {plural(self.failed, 'target')} failed.{where}"
        return f"{headline(manifest)}{where}" if manifest["nodes"] else ""

    def _queue(self, depth: int) -> None:
        assigned = load_if_whole(self.at.of_depth(depth, "assigned.json")) or {"tasks": {}}
        for name, task in assigned["tasks"].items():
            if not task["empty"] and name in self.todo and name not in self.known:
                self._tell(events.QUEUED, name)

    def _is_empty(self, slot: str) -> bool:
        return bool(load(self.at.of_eval(parse_slot(slot), "task.json"))["empty"])

    def _start(self, slot: str, at: float) -> None:
        if not self._is_empty(slot):
            self.begun.add(slot)
            self._tell(events.STARTED, slot, at, pid=os.getpid())

    def _scored(self, slot: str) -> None:
        """Once for each time it was begun, and once when all of it was recalled."""
        life = self.known.get(slot)
        if life is None or (slot not in self.begun and life["finished_at"] is not None):
            return
        self.news += 1
        summary = load(self.at.of_eval(parse_slot(slot), "summary.json"))
        ended = events.COMPLETED if summary["status"] == "completed" else events.FAILED
        error = {"why": summary["why"]} if summary["why"] else None
        self._tell(ended, slot, recalled=slot not in self.begun, error=error)

    def _promoted(self, depth: int) -> None:
        found = load(self.at.of_depth(depth, "promoted.json"))
        for node, beam in found["beam"].items():
            if beam["promoted_from_eval_id"]:
                self.log.append({"event": "promotion", "node_id": node, **beam})
        if found["stop_reason"]:
            self.log.append({"event": "stopped", "depth": depth, "stop_reason": found["stop_reason"]})
        if self.news >= NEW_PART * len(self.known):
            self._write_manifest()

    def _tell(self, what: str, eval_id: str, at: float | None = None, **more: Any) -> None:
        event = self.log.append({"event": what, "eval_id": eval_id, **more}, at)
        life = self.known.get(eval_id, events.NEW)
        self.known[eval_id] = life | events.after(life, event)

    def _write_manifest(self) -> Record:
        manifest = folded(self.run, self.config, self.known)
        write_whole(self.at.of_run(MANIFEST), dumped(manifest), durable=False)
        self.news = 0
        return manifest


def _slot(target: Target) -> str:
    """Of an evaluation's targets; empty for others, and for those that only look for an idea."""
    where = position(target.name) if target.stage in STEPS else None
    return str(where) if isinstance(where, Slot) else ""
