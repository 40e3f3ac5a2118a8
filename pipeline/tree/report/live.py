"""manifest.json while a search goes on: entries are folded anew as they change, the file is put together from texts.

Whoever only reads a search takes that file, and folds what has happened since.

To fold and dump all of a search costs time by its size.  So the entry of an evaluation is folded once for each time
that something of it changed, and its text is kept; the same goes for events, which are only ever appended.  What is
written is byte for byte what `dump_record(fold_manifest(…))` would be at that moment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pipeline.store.files import whole_lines, write_whole
from pipeline.store.records import record_of
from pipeline.tree.report.manifest import (
    NO_LIFE,
    VERSION,
    call_files,
    evaluation_entry,
    fold_manifest,
    node_entries,
    relived_entry,
    run_config,
    sealed_record,
    whole_manifest,
)
from pipeline.tree.report.run_records import RunRecords
from pipeline.tree.rules.beam import COMPLETED, FAILED
from pipeline.tree.rules.positions import EVENTS, MANIFEST, RunLayout, parse_place, parse_slot
from pipeline.tree.run.records import Record, lives_of, load_if_intact, read_events
from pipeline.tree.spec.model import Params

NO_TASKS: Record = {"tasks": {}}


class EventTail:
    """Events of a log that grows, each with its text; only new lines are read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._restart()

    def _restart(self) -> None:
        self._place = 0
        self.events: list[Record] = []
        self.texts: list[str] = []

    def read_on(self) -> None:
        if not os.path.exists(self.path):
            self._restart()
            return
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size < self._place:  # somebody has cut it
                self._restart()
            file.seek(self._place)
            for line in whole_lines(file):
                self._place += len(line)
                self._add(line)

    def _add(self, line: bytes) -> None:
        if event := record_of(line):
            self.events.append(event)
            self.texts.append(json_text(event, 2))


class LiveManifest:
    """Manifest of a run that is kept up to date.  `lives`: of each evaluation, kept by the coordinator."""

    def __init__(self, run: str, config: Params, lives: Mapping[str, Record]) -> None:
        self.run, self.config, self.lives = run, config, lives
        self._entries: dict[str, Record] = {}
        self._texts: dict[str, str] = {}
        self._calls: dict[str, dict[str, str]] = {}
        self.renew()

    def renew(self) -> None:
        """Forget everything: what all entries rest on has changed."""
        self._records = RunRecords(self.run, self.config)
        self._events = EventTail(self._records.at.of_run(EVENTS))
        self._nodes: dict[str, Record] | None = None
        self._stale = {str(slot) for slot in self._records.shape.all_slots()}
        self._relived: set[str] = set()

    def resume(self, stored: Record, since: Iterable[Record]) -> None:
        """Take over a manifest that was written; `since`: the events that it does not have yet."""
        self._stale, self._entries, self._nodes = set(), dict(stored["evaluations"]), stored["nodes"]
        for name, path in stored["conversations"].items():
            self._calls.setdefault(name.rpartition(".")[0], {})[name] = path
        for event in since:
            if event.get("eval_id"):
                self.renew_slot(event["eval_id"])
            if "node_id" in event:
                self.renew_depth(parse_place(event["node_id"]).depth - 1)
            elif event.get("depth") is not None:
                self.renew_depth(event["depth"])

    def renew_nodes(self) -> None:
        """Forget the nodes, and what was read to make entries; the entries are still right."""
        self._records, self._nodes = RunRecords(self.run, self.config), None

    def renew_slot(self, slot: str) -> None:
        self._stale.add(slot)

    def renew_life(self, slot: str) -> None:
        """Note that the coordinator knows more of an evaluation, of which the records are the same."""
        self._relived.add(slot)

    def renew_depth(self, depth: int) -> None:
        """Forget a depth that was assigned or decided on, and the nodes."""
        self.renew_nodes()
        self._stale |= {str(slot) for slot in self._records.shape.slots(depth)}

    def entry(self, slot: str) -> Record:
        """The entry of one evaluation as it is now."""
        self._refresh([slot])
        return self._entries[slot]

    def ended_entry(self, slot: str, weighed: bool) -> Record:
        """The entry of an evaluation as it ended just now.

        What its depth decided is of before then, and so is its score until it is `weighed` anew."""
        where, entry = parse_slot(slot), self.entry(slot)
        old_score = not weighed and entry["scoring_summary"] is not None
        if where.depth not in self._records.promotions and not old_score:
            return entry
        return evaluation_entry(self._records, where, self.lives.get(slot, NO_LIFE), decided=False, weighed=weighed)

    def has_ended(self, slot: str) -> bool:
        """Check if an evaluation is at its end; nothing is assigned any more to some slots of earlier specs."""
        self._refresh([slot])
        return slot in self._entries and self._entries[slot]["status"] in (COMPLETED, FAILED)

    def fold(self) -> Record:
        """The manifest as it is now.

        An assignment may be in place before the coordinator has heard of it: its slots have no entries yet."""
        assigned = [str(slot) for slot in self._records.assigned_slots]
        self._stale |= {name for name in assigned if name not in self._entries}
        self._refresh(sorted(self._stale | self._relived))
        self._events.read_on()
        if self._nodes is None:
            self._nodes = node_entries(self._records)
        entries = {name: self._entries[name] for name in assigned}
        calls = {name: path for found in self._calls.values() for name, path in found.items()}
        return whole_manifest(self._records, self._nodes, entries, calls, self._events.events)

    def write(self) -> Record:
        """Put the file in place, whole; the manifest."""
        manifest = self.fold()
        parts = [f' "{name}": {self._part_text(name, manifest[name])}' for name in sorted(manifest)]
        text = "{\n" + ",\n".join(parts) + "\n}\n"
        write_whole(self._records.at.of_run(MANIFEST), text.encode(), durable=False)
        return manifest

    def _refresh(self, slots: Iterable[str]) -> None:
        assignments: Mapping[int, Record] = self._records.assignments
        for name in slots:
            if name not in self._stale and name not in self._relived:
                continue
            slot, life = parse_slot(name), self.lives.get(name, NO_LIFE)
            if name in self._stale:
                self._calls[name] = dict(call_files(self._records, slot))
                if name in assignments.get(slot.depth, NO_TASKS)["tasks"]:
                    self._entries[name] = evaluation_entry(self._records, slot, life)
            elif name in self._entries:
                self._entries[name] = relived_entry(self._entries[name], life)
            self._stale.discard(name)
            self._relived.discard(name)
            self._texts.pop(name, None)

    def _part_text(self, name: str, part: Any) -> str:
        if name == "evaluations" and part:
            for slot in part.keys() - self._texts.keys():
                self._texts[slot] = json_text(part[slot], 2)
            lines = [f'  "{slot}": {self._texts[slot]}' for slot in sorted(part)]
            return "{\n" + ",\n".join(lines) + "\n }"
        if name == "events" and part:
            return "[\n" + ",\n".join(f"  {text}" for text in self._events.texts) + "\n ]"
        return json_text(part, 1)


def current_manifest(run: str, config: Params) -> Record:
    """The manifest as it is now: that of the last build with what has happened since, or folded anew without one."""
    at = RunLayout(run)
    events, path = [*read_events(at.of_run(EVENTS))], at.of_run(MANIFEST)
    stored, lives = _stored_manifest(path), lives_of(events)
    if stored is None or not _is_ours(run, config, stored) or stored["events"] != events[: len(stored["events"])]:
        return fold_manifest(run, config, lives)
    if since := events[len(stored["events"]) :]:
        live = LiveManifest(run, config, lives)
        live.resume(stored, since)
        return live.fold()
    return {**stored, "holdout": sealed_record(run, config)}  # it is opened without a build of the search


def _stored_manifest(path: str) -> Record | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _stored_manifest_as_of(path, found.st_size, found.st_mtime_ns)


@lru_cache(1)
def _stored_manifest_as_of(path: str, _size: int, _time: int) -> Record | None:
    """A manifest as it was then, which nobody may change."""
    return load_if_intact(path)


def _is_ours(run: str, config: Params, stored: Record) -> bool:
    """Check that a manifest is of today's spec and version: its first entry has the fields that it would have now."""
    if stored.get("version") != VERSION or stored["run_config"] != json.loads(json.dumps(run_config(config))):
        return False
    records = RunRecords(run, config)
    first = next(iter(records.assigned_slots), None)
    if first is None or str(first) not in stored["evaluations"]:
        return first is None
    fields: set[str] = {*stored["evaluations"][str(first)]}
    return fields == evaluation_entry(records, first, NO_LIFE).keys()


def json_text(value: Any, level: int) -> str:
    """A value as it stands in a record, indented so far; line breaks in texts are escaped, so all there are indent."""
    return json.dumps(value, indent=1, sort_keys=True).replace("\n", "\n" + " " * level)
