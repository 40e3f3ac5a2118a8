"""Coordinator of a build: the one writer of events.jsonl, manifest.json, refs and node worktrees.

It is called in the main thread when targets start, wait and end.  Records decide: its files can be made again from
them.  For each evaluation it writes the events of its life (states in `run/records.py`), for the run `build`,
`build_ended`, `searching`, `waiting`, `promotion` and `stopped`.  An event is written as it happens, the manifest and
the summary a moment later (`WRITE_EVERY`); but tasks are queued in the manifest before the first of them may start.  At
the end it makes refs and worktrees as the manifest has them, and removes all others."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, OUTAGE_WORDS, RECALLED, Outcome, Wait
from pipeline.core.projection import Moment
from pipeline.core.text import plural
from pipeline.errors import NO_ROOM
from pipeline.git.command import GitOutage
from pipeline.kinds import Follower
from pipeline.machine.failures import describe_unwritten
from pipeline.machine.patience import Pauses
from pipeline.models.calls import cost_of_calls, read_calls
from pipeline.store.files import write_whole
from pipeline.store.receipts import Receipts
from pipeline.store.steering import SteeringLog, drop_claims
from pipeline.tree.report.figures import headline
from pipeline.tree.report.happenings import depth_line, idea_line, measured_fields, score_fields, stopped_line
from pipeline.tree.report.live import LiveManifest
from pipeline.tree.report.obstacles import obstacles_of
from pipeline.tree.report.run_records import RunRecords, uncaged_text
from pipeline.tree.report.summary import summary_text
from pipeline.tree.rules.beam import SKIPPED
from pipeline.tree.rules.positions import (
    ASKING_STAGES,
    CANDIDATE_STAGES,
    EVENTS,
    MANIFEST,
    REST_PART,
    SCORING_STAGES,
    SUMMARY,
    RunLayout,
    depth_of,
    find_slot,
    is_of_search,
    own_name,
    parse_slot,
    slot_of,
    sweep_part,
)
from pipeline.tree.run import records
from pipeline.tree.run.records import CommandCost, Record, load_as, load_if_intact
from pipeline.tree.run.run_repo import keep_git_state
from pipeline.tree.run.seal import SEARCH_EVENT, searched_parts
from pipeline.tree.targets.builder import planned_config

SLOT_STAGES = (*CANDIDATE_STAGES, "by_hand", "gather", "join", "pair", *SCORING_STAGES)
# Manifest and summary are written so often, in seconds, or so many times more rarely than writing them takes.
WRITE_EVERY, WRITE_SHARE = 1.0, 40
FULL_DISK_PAUSE = 5.0
PROMOTION = "promotion"
T = TypeVar("T")


class TreeFollower(Follower):
    """Follows one build of a run."""

    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self.run, self.at, self.targets = run, RunLayout(run), targets
        self.events = self.at.of_run(EVENTS)
        self.log = records.EventLog(self.events)
        self.config = planned_config(targets)
        self.left = Counter(map(_told_with, todo))  # targets that have not ended well, by what is told when all have
        self.todo = {slot for target in todo if (slot := _slot_name(target))}
        self.searching = [target for target in todo if is_of_search(target.name)]
        self.ahead = {target.name for target in targets if target.name.endswith(".ahead")}
        self.past = past = [*records.read_events(self.events)]
        self.known = records.lives_of(past)
        promoted = (event for event in past if event["event"] == PROMOTION)
        self.told_promotions = {(each["node_id"], each["promoted_from_eval_id"]) for each in promoted}
        self.steering = SteeringLog(run)
        self.heeded = max((event.get("request", 0) for event in past), default=0)  # requests that are events already
        self.manifest = LiveManifest(run, self.config, self.known)
        self.started_slots: set[str] = set()
        self.begun_slots: set[str] = set()  # those that have run something in this build, or waited for it
        self.last_end: dict[str, float] = {}  # of the last command of a slot
        self.lines: list[str] = []
        self.usd = 0.0
        self.announced = self.changed = self.pending = False
        self.next_write = 0.0
        self.failed = 0
        self.outages: dict[str, str] = {}  # by the reason to stop, why the first target of it was kept back
        last = f"{run}:d{self.config['max_depth'] - 1}.promote"
        stages = {target.stage for target in todo}
        # the target `report` writes the summary after the last promotion: from then on it is not ours
        unreported = "report" not in stages or any(target.name == last for target in todo)
        self.summary_is_ours = bool(self.searching) and unreported
        self.last_promotion, self.reported = last, False
        self.began = time.time()
        self.patience = max((target.limits.patience or 0.0 for target in targets), default=0.0)
        if self.searching:
            self._begin()

    def _begin(self) -> None:
        """Queue the evaluations to do, and again those that a killed build had begun.

        A manifest that lacks events is of a build that was killed before it wrote the last one: it is written anew,
        even if all is fresh by now."""
        drop_claims(self.run)
        parts = searched_parts(self.config)  # held out later, they would not be fresh
        last = [event for event in records.read_events(self.events) if event["event"] == SEARCH_EVENT][-1:]
        if self.todo and parts not in [{name: event[name] for name in parts} for event in last]:
            self._append({"event": SEARCH_EVENT, **parts})
        self.changed = (load_if_intact(self.at.of_run(MANIFEST)) or {"events": []})["events"] != self.past
        if self.todo and records.outage_stop(records.read_events(self.events)):
            self._announce()
        self.steered()
        for name, life in sorted(self.known.items()):
            failed = life["task_state"] == records.EVENT_FAILED
            waits = failed and not os.path.exists(self.at.of_eval(parse_slot(name), "summary.json"))
            gone = life["task_state"] == records.RUNNING  # the build that ran it
            if name in self.todo and (gone or waits):
                self._log_event(records.EVENT_REQUEUED, name)
        for depth in range(self.config["max_depth"]):
            self._queue(depth)
        if self.announced:
            self._write_if_room()

    def _announce(self) -> None:
        """Log the build, once it is sure that something is going to change: what is in doubt may all be fresh."""
        if self.searching and not self.announced:
            self.announced = True
            self._append({"event": records.EVENT_BUILD, "pid": os.getpid(), "targets": len(self.searching)})

    def steered(self) -> None:
        """Log what people asked for since the last event of that kind, also while nothing was built.

        That alone announces no build: all that is in doubt may be fresh."""
        for number, request in enumerate(self.steering.requests(), 1):
            if number > self.heeded:
                self.log.append({**request, "request": number})
                self.heeded, self.pending = number, True

    def target_started(self, target: Target, new: bool) -> None:
        slot = _slot_name(target)
        if slot and new and target.stage in CANDIDATE_STAGES and slot not in self.started_slots:
            self._start(slot, time.time())

    def target_process(self, target: Target, pid: int) -> None:
        slot = _slot_name(target)
        if slot and target.stage in CANDIDATE_STAGES:
            self.begun_slots.add(slot)
            if slot not in self.started_slots:
                self._start(slot, time.time())
            self._log_event(records.EVENT_WORKING, slot, stage=target.stage, pid=pid)

    def target_waits(self, target: Target, wait: Wait) -> None:
        slot = find_slot(own_name(target.name))
        self.begun_slots.add(str(slot))
        self._append({"event": records.EVENT_WAITING, "eval_id": slot and str(slot), **wait._asdict()})

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        self._count(target, outcome)
        if outcome.status == FRESH and (ended_alike := _slot_name(target)) in self.started_slots:
            self._slot_target_ended(ended_alike, target, outcome)
        if outcome.status not in (BUILT, RECALLED, FAILED):
            return
        self._announce()
        self.changed = True
        self._mark_stale(target)
        slot = _slot_name(target)
        if outcome.status == FAILED:
            self._target_failed(slot, target, outcome)
        elif target.stage in ("assign", "wave"):
            self._queue(depth_of(target.name))
            self._write_if_room()
        elif target.stage == "admit":
            self._queue_slot(target)
            self._write_if_room()
        elif target.stage == "promote":
            self._log_promotion(target.params["depth"])
        elif slot:
            self._slot_target_ended(slot, target, outcome)

    def _count(self, target: Target, outcome: Outcome) -> None:
        if target.stage in ASKING_STAGES and outcome.status in (RECALLED, FRESH) and self.is_saved(target):
            self.usd += _calls_usd(target)
        if target.stage == "report" and outcome.status != FAILED:
            self.reported = True
        if target.name == self.last_promotion and "report" in {each.stage for each in self.searching}:
            self.summary_is_ours = False
        if outcome.status in (BUILT, RECALLED, FRESH):
            self.left[_told_with(target)] -= 1

    def _target_failed(self, slot: str, target: Target, outcome: Outcome) -> None:
        """Log a failure; an outage is nobody's, and its evaluation waits again."""
        if outcome.outage:
            self.outages.setdefault(outcome.outage, outcome.why)
            if slot:
                unbegun = {} if slot in self.begun_slots else {"begun": False}
                self._log_event(records.EVENT_REQUEUED, slot, **unbegun)
            return
        self.failed += 1
        if slot:
            error = {"stage": target.stage, "why": outcome.why, "exit": outcome.exit, "log": outcome.log}
            self._log_event(records.EVENT_FAILED, slot, error=error)
            self.lines.append(stopped_line(self.run, slot, target.stage, outcome.why))

    def _slot_target_ended(self, slot: str, target: Target, outcome: Outcome) -> None:
        if target.stage in CANDIDATE_STAGES and outcome.status == BUILT:
            self.begun_slots.add(slot)
            if slot not in self.started_slots:
                self._start(slot, outcome.start)
            if _ran_command(target):
                self.last_end[slot] = max(outcome.end, self.last_end.get(slot, 0.0))
        elif target.name.endswith(f"{slot}.pairs") or target.stage in SCORING_STAGES:
            self._log_end(slot, outcome.end, target.stage in SCORING_STAGES)
        if target.stage in SCORING_STAGES:
            self._log_score(slot)

    def _mark_stale(self, target: Target) -> None:
        """Note what of the manifest is to be folded anew."""
        slot = _slot_name(target)
        self.pending = True
        if slot:
            self.manifest.renew_slot(slot)
        elif target.stage in ("assign", "wave", "admit", "cascade", "promote"):
            self.manifest.renew_depth(depth_of(target.name))
        elif target.stage in ("idea", "node", "weigh", "report", "validate"):
            self.manifest.renew_nodes()
            if asked := find_slot(own_name(target.name)):
                self.manifest.renew_slot(str(asked))
        else:  # the root and what all is compared with
            self.manifest.renew()

    def round_ended(self) -> None:
        if self.pending and time.monotonic() >= self.next_write:
            self._write_if_room()

    def _write_if_room(self) -> None:
        """Write the manifest; later, if a disk has no room for it: stages wait for that too."""
        try:
            self._write()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.pending, self.next_write = True, time.monotonic() + FULL_DISK_PAUSE

    def take_lines(self) -> Sequence[str]:
        lines, self.lines = self.lines, []
        return lines

    def is_saved(self, target: Target) -> bool:
        """False for work in its turn that was begun ahead: it is recalled from there, whoever paid for that."""
        ahead = target.name.replace(".implement", ".ahead")
        if ahead == target.name or ahead not in self.ahead:
            return True
        task = load_if_intact(self.at.of_eval(slot_of(target.name), "ahead/task.json"))
        return task is None or bool(task["empty"])

    @property
    def saved_usd(self) -> float:
        return self.usd

    def finish(self, stopped: bool) -> str:
        """The headline of the search; empty when nothing has changed."""
        if not stopped:
            self._log_untold()
        if self.announced:
            ended = {"event": records.EVENT_BUILD_ENDED, "seconds": round(time.time() - self.began, 3)}
            self._append({**ended, "failed": self.failed, "stopped": stopped})
        if not self.changed:
            if self.pending:
                self._await_room(self._write, stopped)
            return ""
        self.summary_is_ours = bool(self.searching) and not self.reported
        for reason, why in [] if stopped else self.outages.items():
            self._append({"event": records.EVENT_STOPPED, "stop_reason": reason, "why": why})
        self._await_room(self.log.flush, stopped)
        manifest = self._await_room(self._write, stopped)
        if not stopped and manifest["root"]["root_commit"]:
            self._await_room(lambda: keep_git_state(self.run, manifest), stopped)
        where = f" See {path}." if os.path.exists(path := self.at.of_run(SUMMARY)) else ""
        if self.outages:
            return f"{self._outage_text(manifest)}{where}"
        if self.failed:
            return f"Not up to date: {plural(self.failed, 'target')} failed.{where}"
        standing = headline(manifest, Moment(True, self.steering.pause()))
        words = [f"{standing}{where}", uncaged_text(manifest)] if manifest["nodes"] else []
        return " ".join(filter(None, words))

    def _await_room(self, write: Callable[[], T], stopped: bool) -> T:
        """Write at the end of the build, when there is room and git is not killed; what was stopped does not wait."""
        pauses = Pauses(0.0 if stopped else self.patience)
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in NO_ROOM or (seconds := pauses.next_pause()) is None:
                    raise
                why = describe_unwritten(error)
            except GitOutage as outage:
                if (seconds := pauses.next_pause()) is None:
                    raise
                why = str(outage)
            sys.stderr.write(f"{self.run}: waits {seconds:g} s: {why}\n")
            time.sleep(seconds)

    def _outage_text(self, manifest: Record) -> str:
        """Words on what was out, what is finished, and how to go on."""
        what = "; ".join(f"{OUTAGE_WORDS[reason]}: {why}" for reason, why in self.outages.items())
        ended = sum(each["status"] in ("completed", "failed") for each in manifest["evaluations"].values())
        failed = f", {plural(self.failed, 'target')} failed" if self.failed else ""
        kept = f"{plural(ended, 'evaluation')} finished{failed}; nothing of it is lost or done again"
        return f"Stopped: {what}. {kept}: `coppice {self.run}` goes on."

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
        names = ("task.json", "ahead/task.json") if self.ahead else ("task.json",)  # else it is of an earlier spec
        paths = (self.at.of_eval(parse_slot(slot), name) for name in names)
        return any(not found["empty"] for path in paths if (found := load_if_intact(path)))

    def _start(self, slot: str, at: float) -> None:
        if self._is_admitted(slot):
            self.started_slots.add(slot)
            self._log_event(records.EVENT_STARTED, slot, at, pid=os.getpid())

    def _log_untold(self) -> None:
        """Log what has ended untold: a build was killed just then, and to this one it is fresh."""
        receipts = Receipts(self.run)
        for slot, life in sorted(self.known.items()):
            if life["task_state"] not in (records.QUEUED, records.RUNNING) or self.left[slot]:
                continue
            names = (f"{self.run}:{slot}.{last}" for last in ("pairs", "score"))
            ends = [found.end for name in names if (found := receipts.receipt(name))]
            if ends and self.manifest.has_ended(slot):
                self.changed = True
                self._log_end(slot, ends[0], weighed=True)
                self._log_score(slot)
        for depth in range(self.config["max_depth"]):
            promoted = load_if_intact(self.at.of_depth(depth, "promoted.json"))
            if promoted and not self.left[f"d{depth}"] and not self.told_promotions.issuperset(_beam_of(promoted)):
                self.changed = True
                self._log_promotion(depth)

    def _log_end(self, slot: str, end: float, weighed: bool) -> None:
        """Log the end of an evaluation: once for each start, and once when all of it was recalled."""
        life, began = self.known.get(slot), slot in self.begun_slots
        if life is None or life["task_state"] in (records.EVENT_COMPLETED, records.EVENT_FAILED):
            return
        entry = self.manifest.ended_entry(slot, weighed)
        ended = records.EVENT_COMPLETED if entry["status"] == "completed" else records.EVENT_FAILED
        error = entry["error"] and {"why": entry["error"]["why"]}
        at = max(self.last_end.get(slot) or end, life["started_at"] or 0.0)
        self._log_event(ended, slot, at, recalled=not began, error=error, **measured_fields(entry))
        if entry["scoring_summary"] is None:  # with a score the line comes with it
            self.lines.append(idea_line(self.run, entry, self.config["primary"], recalled=not began))

    def _log_score(self, slot: str) -> None:
        """Log the comparison of an evaluation, which by blocks is known later than its end."""
        if slot not in self.known:
            return
        entry = self.manifest.ended_entry(slot, weighed=True)
        if entry["scoring_summary"]:
            self._log_event(records.EVENT_SCORED, slot, **score_fields(entry), **measured_fields(entry))
            recalled = slot not in self.begun_slots
            self.lines.append(idea_line(self.run, entry, self.config["primary"], recalled))

    def _log_promotion(self, depth: int) -> None:
        promoted = RunRecords(self.run, self.config).promotion(depth)
        assert promoted is not None
        self.told_promotions |= {*_beam_of(promoted)}
        for node, _ in _beam_of(promoted):
            self._append({"event": PROMOTION, "node_id": node, **promoted["beam"][node]})
        if promoted["stop_reason"]:
            self._append({"event": records.EVENT_STOPPED, "depth": depth, "stop_reason": promoted["stop_reason"]})
        if any(not decision["why"].startswith(f"{SKIPPED}:") for decision in promoted["decisions"].values()):
            self.lines.append(depth_line(self.run, depth, promoted))

    def _append(self, event: Mapping[str, Any], at: float | None = None) -> records.Event:
        self._announce()
        self.pending = True
        return self.log.append(event, at)

    def _log_event(self, what: str, eval_id: str, at: float | None = None, **more: Any) -> None:
        records.note_event(self.known, self._append({"event": what, "eval_id": eval_id, **more}, at))
        self.manifest.renew_life(eval_id)

    def _write(self) -> Record:
        """Write the manifest, and the summary while it is ours and something has changed."""
        before = time.thread_time()
        manifest = self.manifest.write()
        if self.announced and self.summary_is_ours and (manifest["nodes"] or self.failed):
            moment = Moment(True, self.steering.pause(), time.time())
            text = summary_text(manifest, moment, obstacles_of(self.run, self.targets)).encode(errors="replace")
            write_whole(self.at.of_run(SUMMARY), text, durable=False)
        pause = max(WRITE_EVERY, WRITE_SHARE * (time.thread_time() - before))
        self.next_write, self.pending = time.monotonic() + pause, False
        return manifest


def _ran_command(target: Target) -> bool:
    """False for the rest of a sweep that a cascade stopped: no command was started."""
    if sweep_part(target.name) != REST_PART:
        return True
    return any(load_as(CommandCost, path).attempts for path in dict(target.writes).get("cost", ()))


def _calls_usd(target: Target) -> float:
    """USD that the calls of a target cost when they were made."""
    paths = [path for path in dict(target.writes).get("calls", ()) if os.path.exists(path)]
    usd: float = sum(cost_of_calls([*read_calls(path)])["usd"] for path in paths if os.path.getsize(path))
    return usd


def _beam_of(promoted: Record) -> list[tuple[str, str]]:
    """Nodes that a depth made, each with the slot it comes from."""
    beam = promoted["beam"].items()
    return [(node, each["promoted_from_eval_id"]) for node, each in beam if each["promoted_from_eval_id"]]


def _told_with(target: Target) -> str:
    """The slot or the depth whose end is told once this target and others have ended; empty for any other."""
    return f"d{depth_of(target.name)}" if target.stage == "promote" else _slot_name(target)


def _slot_name(target: Target) -> str:
    """The slot of a target; empty for targets of no evaluation, and for those that get an idea."""
    slot = find_slot(own_name(target.name)) if target.stage in SLOT_STAGES else None
    return str(slot) if slot else ""


follower = TreeFollower
