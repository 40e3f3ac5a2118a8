"""manifest.json while a search goes on: entries are folded anew as they change, the file is put together from texts.

Whoever only reads a search takes that file, and folds what has happened since.

To fold and dump all of a search costs time by its size.  So the entry of an evaluation is folded once for each time
that something of it changed, and its text is kept; the same goes for events, which are only ever appended.  What is
written is byte for byte what `dump_record(fold_manifest(…))` would be at that moment."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from pipeline.core.text import plural
from pipeline.store.files import open_plain, whole_lines, write_whole
from pipeline.tree.report.manifest import (
    NO_LIFE,
    NOT_BY_CONFIG,
    PENDING,
    VERSION,
    call_files,
    depth_progress,
    evaluation_entry,
    fold_manifest,
    node_entries,
    relived_entry,
    run_config,
    sealed_record,
    whole_manifest,
)
from pipeline.tree.report.run_records import EXPANDED, FRONTIER, RunRecords
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.budget import Spending, budget_left, held_usd, ledger_of, total_spending
from pipeline.tree.rules.positions import EVENTS, MANIFEST, RunLayout, parse_place, parse_slot
from pipeline.tree.rules.scoring import PAIRED
from pipeline.tree.run.records import (
    NEW_LIFE,
    QUEUED,
    RUNNING,
    Record,
    event_of,
    lives_of,
    load_if_intact,
    outage_stop,
)
from pipeline.tree.spec.model import Params
from pipeline.trust.series import round_significant

NO_TASKS: Record = {"tasks": {}}


class EventTail:
    """Events of a log that grows; only new lines are read, and all again of a log that is another one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._restart()

    def _restart(self) -> None:
        self._inode, self._place, self._last = 0, 0, b""
        self.size, self.damaged = 0, 0
        self.events: list[Record] = []
        self._texts: list[str] = []

    def texts(self) -> list[str]:
        """The events as they stand in a manifest."""
        self._texts += [json_text(event, 2) for event in self.events[len(self._texts) :]]
        return self._texts

    def read_on(self) -> None:
        if not os.path.exists(self.path):
            self._restart()
            return
        with open_plain(self.path) as file:
            found = os.fstat(file.fileno())
            inode, size = found.st_ino, found.st_size
            file.seek(self._place - len(self._last))
            if inode != self._inode or file.read(len(self._last)) != self._last:  # somebody has cut or replaced it
                self._restart()
                self._inode = inode
                file.seek(0)
            for line in whole_lines(file):
                self._place, self._last = self._place + len(line), line
                if event := event_of(line):
                    self.events.append(event)
                else:
                    self.damaged += 1
            self.size = max(size, self._place)  # more was appended meanwhile

    @property
    def fault(self) -> str:
        """The fault of the log in words; empty where all of it are events."""
        if not os.path.exists(self.path):
            return "is not there"
        if not self.events:
            return "has no event"
        if self.damaged:
            return f"has {plural(self.damaged, 'line')} that {'is' if self.damaged == 1 else 'are'} no event"
        return "ends within a line" if self.size > self._place else ""


class LiveManifest:
    """Manifest of a run that is kept up to date.  `lives`: of each evaluation, kept by the coordinator."""

    def __init__(self, run: str, config: Params, lives: Mapping[str, Record], events: EventTail | None = None) -> None:
        self.run, self.config, self.lives, self._known = run, config, lives, events
        self._entries: dict[str, Record] = {}
        self._texts: dict[str, str] = {}
        self._calls: dict[str, dict[str, str]] = {}
        self.renew()

    def renew(self) -> None:
        """Forget everything: what all entries rest on has changed."""
        self._records = RunRecords(self.run, self.config)
        self._events = self._known or EventTail(self._records.at.of_run(EVENTS))
        self._nodes: dict[str, Record] | None = None
        self._stale = {str(slot) for slot in self._records.shape.all_slots()}
        self._relived: set[str] = set()

    def resume(self, stored: Record, since: Iterable[Record]) -> None:
        """Take over a manifest that was written; `since`: the events that it does not have yet."""
        self._stale, self._entries, self._nodes = set(), dict(stored["evaluations"]), stored["nodes"] or None
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
        return whole_manifest(self._records, self._nodes, entries, calls, [*self._events.events])

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
            return "[\n" + ",\n".join(f"  {text}" for text in self._events.texts()) + "\n ]"
        return json_text(part, 1)


def current_manifest(run: str, config: Params) -> Record:
    """The manifest as it is now: that of the last build with what has happened since, or folded anew without one."""
    tail = _tail_of(os.path.abspath(RunLayout(run).of_run(EVENTS)))
    tail.read_on()
    events, stored = [*tail.events], _stored_manifest(run, json.dumps(run_config(config), sort_keys=True))
    if stored is None or stored["events"] != events[: len(stored["events"])]:
        return fold_manifest(run, config, lives_of(events))
    if since := events[len(stored["events"]) :]:
        live = LiveManifest(run, config, lives_of(events), tail)
        live.resume(stored, since)
        return live.fold()
    return {**stored, "holdout": sealed_record(run, config)}  # it is opened without a build of the search


def event_fault(run: str) -> str:
    """The fault of the events of a run in words; empty where nothing is."""
    tail = _tail_of(os.path.abspath(RunLayout(run).of_run(EVENTS)))
    tail.read_on()
    return tail.fault


@lru_cache(1)
def _tail_of(path: str) -> EventTail:
    """The tail of a log, which whoever follows a run reads on from where he was."""
    return EventTail(path)


def _stored_manifest(run: str, own_config: str) -> Record | None:
    """The manifest that a build has left, if it is of today's spec and version."""
    path = RunLayout(run).of_run(MANIFEST)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    mark = (os.path.abspath(path), found.st_ino, found.st_size, found.st_mtime_ns)
    return _stored_manifest_as_of(run, own_config, mark)


@lru_cache(1)
def _stored_manifest_as_of(run: str, own_config: str, mark: tuple[str, int, int, int]) -> Record | None:
    """A manifest as it was then, which nobody may change: its first entry has the fields that it would have now."""
    stored, config = load_if_intact(mark[0]), json.loads(own_config)
    if stored is None or stored.get("version") != VERSION or stored["run_config"] != config:
        return None
    records = RunRecords(run, config)
    first = next(iter(records.assigned_slots), None)
    if first is None:
        return stored
    fields = evaluation_entry(records, first, NO_LIFE).keys()
    return stored if stored["evaluations"].get(str(first), NO_LIFE).keys() == fields else None


# --- As it was.


def manifest_at(manifest: Record, at: float) -> Record:
    """The manifest of an earlier time, as far as its events tell: what ended later is queued or runs, what was decided
    later is not decided, and of the money only what had ended is paid.  By role it is not known then."""
    events, config = [event for event in manifest["events"] if event["at"] <= at], manifest["run_config"]
    began, decided = _first_times(manifest)
    over = {depth for depth, time in decided.items() if time <= at}
    lives = lives_of(events)
    evaluations = {
        name: _entry_at(each, lives.get(name), each["depth"] in over, config["method"])
        for name, each in manifest["evaluations"].items()
        if began.get(each["depth"], inf) <= at and (name in lives or each["empty"] or name not in began)
    }
    nodes = {
        name: {**node, "status": EXPANDED if node["depth"] in over else FRONTIER}
        for name, node in manifest["nodes"].items()
        if began.get(name, decided.get(node["depth"] - 1, inf) if node["depth"] else began.get(0, inf)) <= at
    }
    return {
        **manifest,
        "state": _state_at(manifest, evaluations, nodes, events, over),
        "nodes": nodes,
        "evaluations": evaluations,
        "holdout": manifest["holdout"] and {"openings": [], "lacking": 0, "result": None},
        "money": _money_at(manifest["money"], evaluations),
        "events": events,
    }


def _first_times(manifest: Record) -> tuple[dict[Any, float], dict[int, float]]:
    """The first time that an evaluation, one of a depth or a node was told of; and when each depth was decided.

    Of a depth of which no event tells that, it is when the next one began, or with the last event."""
    began: dict[Any, float] = {}
    decided: dict[int, float] = {}
    for event in manifest["events"]:
        if name := event.get("eval_id"):
            began.setdefault(name, event["at"])
            began.setdefault(parse_slot(name).depth, event["at"])
        elif node := event.get("node_id"):
            began.setdefault(node, event["at"])
            decided.setdefault(parse_place(node).depth - 1, event["at"])
        elif event.get("depth") is not None:
            decided.setdefault(event["depth"], event["at"])
    last = max((event["at"] for event in manifest["events"]), default=0.0)
    for depth in manifest["state"]["completed_depths"]:
        decided.setdefault(int(depth), began.get(int(depth) + 1, last))
    return began, decided


# Of an evaluation before its end; of a verdict by blocks there is more to come after it.
_NOT_ENDED: Record = dict.fromkeys(
    ("error", "primary", "spent", "partial", "change", "approved", "candidate_commit", "cascade", "rows_expected")
)
_NOT_ENDED |= {"cages": {}, "files": {}, "seconds": {}, "attempts": {}, "defects": [], "left_out": []}
_NOT_SCORED: Record = {"scoring_summary": None, **NOT_BY_CONFIG}


def _entry_at(entry: Record, life: Record | None, is_decided: bool, method: str) -> Record:
    if not is_decided:
        outcome = entry["outcome"] if entry["status"] in (FAILED, SKIPPED) else None
        entry = {**entry, "decision": None, "outcome": outcome}
    if entry["empty"] or (life is None and is_decided):
        return entry
    life = life or NEW_LIFE
    known = {**entry, **{name: life[name] for name in NEW_LIFE}, "task_state": life["task_state"] or QUEUED}
    if life["finished_at"] is None:
        status = RUNNING if life["task_state"] == RUNNING else PENDING
        return {**known, **_NOT_ENDED, **_NOT_SCORED, "status": status, "decision": None, "outcome": None}
    return known if is_decided or life["scored_at"] or method != PAIRED else {**known, **_NOT_SCORED}


def _state_at(
    manifest: Record, evaluations: Record, nodes: Record, events: Sequence[Record], over: Collection[int]
) -> Record:
    """The state, counted anew from what there was."""
    state, config = manifest["state"], manifest["run_config"]
    stops = [event["stop_reason"] for event in events if event.get("depth") is not None]
    out = outage_stop(events)
    here = {str(each["depth"]) for each in evaluations.values()}
    spent = {name: Spending(**each["spent"]).as_list for name, each in evaluations.items() if each["spent"]}
    open_slots = [name for name, each in evaluations.items() if not each["empty"] and name not in spent]
    ledger = ledger_of(config, open_slots, spent)
    return {
        **state,
        "current_depth": len(over),
        "stop_reason": stops[-1] if stops else out["stop_reason"] if out else None,
        "frontier_node_ids": [name for name, node in nodes.items() if node["status"] == FRONTIER],
        "completed_depths": sorted(over),
        "depth_progress_by_depth": {
            depth: depth_progress(each["planned"], int(depth), evaluations)
            for depth, each in state["depth_progress_by_depth"].items()
            if depth in here
        },
        "beam_by_depth": {d: beam for d, beam in state["beam_by_depth"].items() if int(d) - 1 in over},
        "spent": total_spending(ledger.spent.values())._asdict(),
        "held_usd": held_usd(ledger),
        "left": budget_left(ledger)._asdict(),
    }


def _money_at(money: Record, evaluations: Record) -> Record:
    """The bill of the slots that had ended; all of it once they all have."""
    told = money["over_time"]
    ended = {name for name, each in evaluations.items() if each["finished_at"] or each["empty"]}
    if all(each["eval_id"] in ended for each in told):
        return money
    usd, unknown, over_time = 0.0, 0, []
    for before, each in zip([{"usd": 0.0, "unknown_calls": 0}, *told], told, strict=False):
        if each["eval_id"] in ended:
            usd = round_significant(usd + each["usd"] - before["usd"])
            unknown += each["unknown_calls"] - before["unknown_calls"]
            over_time.append({**each, "usd": usd, "unknown_calls": unknown})
    nothing = {name: 0 for name, value in money.items() if isinstance(value, int | float)}
    known = {"usd": usd, "unknown_calls": unknown, "by_role": {}, "by_depth": {}, "over_time": over_time}
    return {**money, **nothing, **known}


def json_text(value: Any, level: int) -> str:
    """A value as it stands in a record, indented so far; line breaks in texts are escaped, so all there are indent."""
    return json.dumps(value, indent=1, sort_keys=True).replace("\n", "\n" + " " * level)
