"""Manifest of a search, folded from its records: an entry a node, an entry an evaluation, the state of the search.

It can be made again at any time.  Only the life cycle of evaluations and the events are not from records but from the
coordinator, who watched the run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from math import fsum
from typing import Any

from pipeline.store.receipts import Receipts
from pipeline.tree.report.run_records import RunRecords
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.budget import BudgetLedger, BudgetLimits, Ceiling, Spending, budget_left, total_spending
from pipeline.tree.rules.positions import (
    CANDIDATES,
    EVENTS,
    NODES,
    OPENINGS,
    ROOT,
    EvalSlot,
    NodePlace,
    RunLayout,
    parse_place,
    parse_slot,
)
from pipeline.tree.rules.scoring import column_by_config, compare_configs, means_by_config
from pipeline.tree.rules.sheet import CheckedRows, SheetRow
from pipeline.tree.run.decisions import spending_of
from pipeline.tree.run.records import EVENT_QUEUED, EVENT_STARTED, NEW_LIFE, TASK_STATES, EventLog, Record
from pipeline.tree.run.seal import seal_record

EXPANDED, FRONTIER = "expanded", "frontier"


def node_entry(found: RunRecords, place: NodePlace, receipts: Receipts) -> Record | None:
    """The entry of a node; None for a place that is empty or not decided yet."""
    origin, code = (found.record(found.at.of_node(place, f"{name}.json")) for name in ("origin", "code"))
    if origin is None or code is None or origin["empty"]:
        return None
    return {
        "parent_node_id": origin["parent_node"],
        "depth": place.depth,
        "status": EXPANDED if place.depth in found.promotions else FRONTIER,
        "closed": origin["closed"],
        "created_at": created_at(receipts, f"{found.run}:{place}.node"),
        "commit": code["commit"],
        "tree": code["tree"],
        "ref": f"refs/coppice/{found.run}/{place}",
        "worktree_path": found.at.of_run(f"{NODES}/{place}"),
        "baseline_results_csv_path": found.at.csv(place),
        "baseline_results_csv_sha256": found.sha(found.at.csv(place)),
        "metrics": node_means(found, place),
        "sweep_config_limit": found.config["sweep_config_limit"],
        "idea_chain": idea_chain(found, origin),
        **_ideas(found, place, origin),
        "dedupe": {"scope": found.config["dedupe_scope"], "skipped": _skipped(found, place)},
        "artifacts": _artifacts(found, origin["from_eval"]),
    }


def node_means(found: RunRecords, place: NodePlace) -> dict[str, float]:
    """The means of a node's rows, which are complete: other code never becomes a node."""
    checked = found.baseline(place)
    rows = checked.rows if checked and not checked.defects else ()
    names = [metric["name"] for metric in found.config["metrics"]] if rows else []
    return {name: fsum(row.metrics[name] for row in rows) / len(rows) for name in names}


def idea_chain(found: RunRecords, origin: Record) -> list[str]:
    """The ideas on the way to a node, followed upwards: the record may have been made in another run."""
    chain: list[str] = []
    above: Record | None = origin
    while above and above["from_eval"]:
        slot = parse_slot(above["from_eval"])
        chain.append(found.at.idea(slot, "md"))
        above = found.record(found.at.of_node(slot.place, "origin.json"))
    return chain[::-1]


def _ideas(found: RunRecords, place: NodePlace, origin: Record) -> Record:
    above = [parse_place(name) for name in origin["ancestors"]]
    return {
        "node_ideas_dir": _folder(found, place),
        "generated_idea_files": found.ideas(place),
        "context_ideas_dirs": [_folder(found, each) for each in (*above, place)],
        "context_idea_files": {path: found.sha(path) for each in above for path in found.ideas(each)},
    }


def _folder(found: RunRecords, place: NodePlace) -> str:
    return found.at.of_run(f"node_ideas/{place}")


def _skipped(found: RunRecords, place: NodePlace) -> list[Record]:
    tasks = found.assignments.get(place.depth, {"tasks": {}})["tasks"]
    return [
        {"eval_id": slot, "duplicate_of": task["duplicate_of"], "identity": task["identity"]}
        for slot, task in tasks.items()
        if task["duplicate_of"] and parse_slot(slot).place == place
    ]


def _artifacts(found: RunRecords, source: str | None) -> Record:
    """The files that a node was made from; the root has its baseline alone."""
    if source is None:
        names = {"sweep": "sweep.json", "sweep_log": "sweep.log"}
        return {"promoted_from_eval_id": None, **{name: found.at.of_node(ROOT, file) for name, file in names.items()}}
    slot = parse_slot(source)
    names = {"summary": "summary.json", "change": "change.patch", "sweep": "sweep.json", "sweep_log": "sweep.log"}
    return {
        "promoted_from_eval_id": source,
        **{name: found.at.of_eval(slot, file) for name, file in names.items()},
        "candidate_results_csv_path": found.at.csv(slot),
    }


def created_at(receipts: Receipts, target: str) -> str | None:
    receipt = receipts.receipt(target)
    return datetime.fromtimestamp(receipt.end, UTC).isoformat(timespec="seconds") if receipt else None


PENDING = "pending"
# Fields that only a watcher of the run knows: records are the same whenever they were made.
LIFECYCLE_FIELDS = tuple(NEW_LIFE)
RECORD_FILES = {
    "task": "task.json",
    "candidate": "candidate.json",
    "change": "change.patch",
    "calls": "calls.jsonl",
    "sweep": "sweep.json",
    "sweep_log": "sweep.log",
    "summary": "summary.json",
}
# Steps before the sweep, each with the keys of the configuration that ask for it.
STEPS_BEFORE_SWEEP = {"test": ("tests",), "checks": ("checks", "protect")}


def evaluation_entry(found: RunRecords, slot: EvalSlot, lifecycle: Mapping[str, Any]) -> Record | None:
    """The entry of an evaluation; None when nothing has been assigned to its slot yet."""
    task = found.assignments.get(slot.depth, {"tasks": {}})["tasks"].get(str(slot))
    return None if task is None else _Evaluation(found, slot, task, lifecycle).record()


class _Evaluation:
    def __init__(self, found: RunRecords, slot: EvalSlot, task: Record, lifecycle: Mapping[str, Any]) -> None:
        self.found, self.slot, self.task, self.lifecycle = found, slot, task, lifecycle
        self.candidate, self.summary = self._read("candidate.json"), self._read("summary.json")
        self.before = [step for step, keys in STEPS_BEFORE_SWEEP.items() if any(found.config[key] for key in keys)]
        names = (*self.before, "sweep")
        self.costs = {name: cost for name in names if (cost := self._read(f"{name}.cost.json"))}
        promoted = found.promotions.get(slot.depth, {"decisions": {}, "spent": {}})
        self.decision = promoted["decisions"].get(str(slot))
        spent = promoted["spent"]
        self.spent = [Spending(*spent[name]) for name in (str(slot), f"{slot}.idea") if name in spent]

    def _read(self, name: str) -> Record | None:
        return self.found.record(self.found.at.of_eval(self.slot, name))

    def record(self) -> Record:
        return {
            "eval_id": str(self.slot),
            "parent_node_id": str(self.slot.place),
            "depth": self.slot.depth,
            **self._idea(),
            **self._status_fields(),
            **self._lifecycle_fields(),
            **self._code(),
            **self._result_fields(),
            "experiment_dir": self.found.at.of_run(f"eval/{self.slot}"),
            "files": self._files(),
            "decision": self.decision,
        }

    def _idea(self) -> Record:
        path = self.found.at.idea(self.slot, "md")
        return {
            "idea_id": self.slot.idea,
            "idea_path": path,
            "idea_text_path": path,
            "idea_sha256": self.found.sha(path),
            "idea_title": idea_title((self.found.content(path) or b"").decode(errors="replace")),
            "idea_source": (self.found.record(self.found.at.idea(self.slot, "json")) or {}).get("source"),
            "empty": self.task["empty"],
            "empty_why": self.task["why"],
            "duplicate_of": self.task["duplicate_of"],
        }

    def _status_fields(self) -> Record:
        status = self.summary["status"] if self.summary else PENDING
        if status == PENDING and self.lifecycle.get("task_state") == TASK_STATES[EVENT_STARTED]:
            status = TASK_STATES[EVENT_STARTED]
        return {"status": status, "error": self._error() if status == FAILED else None}

    def _error(self) -> Record:
        """The error of the first step that failed; a candidate that was not made has no steps after that."""
        assert self.summary is not None
        steps = [("implement", self.candidate, "calls.jsonl")]
        steps += [(step, self._read(f"{step}.json"), f"{step}.log") for step in (*self.before, "sweep")]
        stage, record, log = next(
            (step for step in steps if step[1] and step[1]["status"] == FAILED), ("implement", {}, "calls.jsonl")
        )
        printed = f"{self.found.at.of_run('.coppice/logs')}/{self.slot}.implement.log"
        log = self.found.at.of_eval(self.slot, log)
        log = printed if stage == "implement" and os.path.exists(printed) else log
        return {"stage": stage, "why": self.summary["why"], "exit": (record or {}).get("exit"), "log": log}

    def _lifecycle_fields(self) -> Record:
        attempts = {name: cost["attempts"] for name, cost in self.costs.items()}
        state = self.summary["status"] if self.summary else TASK_STATES[EVENT_QUEUED]
        known = dict.fromkeys(LIFECYCLE_FIELDS) | {"attempt": max(attempts.values(), default=None), "task_state": state}
        return {
            **known,
            **{name: self.lifecycle[name] for name in LIFECYCLE_FIELDS if name in self.lifecycle},
            "attempts": attempts,
            "seconds": {name: cost["seconds"] for name, cost in self.costs.items()},
            "spent": total_spending(self.spent)._asdict() if self.spent else None,
        }

    def _code(self) -> Record:
        made = self.candidate or {}
        commit, rounds = made.get("commit") or None, made.get("rounds", 0)
        reviews = [self.found.at.of_eval(self.slot, f"review_round_{n}.md") for n in range(1, rounds + 1)]
        return {
            "parent_commit": made.get("parent") or None,
            "candidate_commit": commit,
            "candidate_tree": made.get("tree") or None,
            "candidate_ref": f"refs/coppice/{self.found.run}/{self.slot}" if commit else None,
            "candidate_worktree_path": self.found.at.of_run(f"{CANDIDATES}/{self.slot}"),
            "approved": made.get("approved"),
            "review_round_files": reviews,
            "change": {name: made[name] for name in ("files", "insertions", "deletions")} if commit else None,
        }

    def _result_fields(self) -> Record:
        summary, at = self.summary or {}, self.found.at
        return {
            "baseline_results_csv_path": at.csv(self.slot.place),
            "baseline_results_csv_sha256": summary.get("baseline_sha256") or None,
            "candidate_results_csv_path": at.csv(self.slot) if summary.get("results_sha256") else None,
            "candidate_results_csv_sha256": summary.get("results_sha256") or None,
            "candidate_rows_used": summary.get("rows_used"),
            "rows_expected": summary.get("rows_expected"),
            "defects": summary.get("defects", []),
            "stopped_after_blocks": self._stopped_after() or None,
            "cascade": self._cascade(),
            "scoring_summary": summary.get("scoring_summary"),
            "by_config": self._by_config() if summary.get("scoring_summary") else None,
        }

    def _stopped_after(self) -> int:
        return self.found.stopped_after(self.slot) if self.summary else 0

    def _cascade(self) -> Record | None:
        """The place of the evaluation on the first blocks among the ideas of its depth."""
        found = self.found.cascade(self.slot.depth)
        return found and found["ideas"].get(str(self.slot))

    def _by_config(self) -> Record | None:
        """The comparison config by config; None unless both files are those that were scored, by today's spec."""
        own, parent = self.found.content(self.found.at.csv(self.slot)), self.found.baseline(self.slot.place)
        if not own or not parent or parent.defects or not self._are_scored(own):
            return None
        name = self.found.config["primary"]
        better = next(metric["better"] for metric in self.found.config["metrics"] if metric["name"] == name)
        before = means_by_config((row.config_id, row.metrics[name]) for row in self._parent_rows(parent))
        after = column_by_config(own.decode(errors="replace"), name, before)
        return compare_configs(better, before, after)._asdict() if after.keys() == before.keys() else None

    def _parent_rows(self, parent: CheckedRows) -> Sequence[SheetRow]:
        """The parent's rows that it is compared with."""
        wanted, stopped = self.found.expected_rows, self._stopped_after()
        return parent.on_blocks(wanted.first_blocks(stopped).blocks).rows if wanted and stopped else parent.rows

    def _are_scored(self, own: bytes) -> bool:
        baseline, scored = self.found.sha(self.found.at.csv(self.slot.place)), self.summary or {}
        return (scored["results_sha256"], scored["baseline_sha256"]) == (sha256(own).hexdigest(), baseline)

    def _files(self) -> Record:
        if self.summary is None or self.task["empty"]:
            return {}
        names = RECORD_FILES | {step: f"{step}.json" for step in self.before}
        names |= {f"{step}_log": f"{step}.log" for step in self.before}
        return {name: self.found.at.of_eval(self.slot, file) for name, file in names.items()}


def idea_title(text: str) -> str:
    """The first line of an idea."""
    lines = (line.strip(" #*") for line in parse_idea(text).sections.get("IDEA", text).splitlines())
    return next(filter(None, lines), "")


VERSION = 3
TASK_FIELDS = ("eval_id", "parent_node_id", "idea_path", "depth", "task_state")
NO_LIFE: Mapping[str, Record] = {}


def fold_manifest(
    run: str,
    config: Mapping[str, Any],
    lifecycle: Mapping[str, Record] = NO_LIFE,
    without: frozenset[str] = frozenset(),
) -> Record:
    """Fold the records of a run into its manifest; records that are not there yet are left out.

    `config`: the run's, as its plan has it; `lifecycle`: of each evaluation, from a watcher of the run; `without`:
    paths of records that must not be believed."""
    found, receipts = RunRecords(run, config, without), Receipts(run)
    receipts.names()  # many are going to be looked up
    nodes = {str(p): record for p in found.all_places() if (record := node_entry(found, p, receipts))}
    evaluations = {
        str(slot): record
        for slot in found.all_slots()
        if (record := evaluation_entry(found, slot, lifecycle.get(str(slot), {})))
    }
    return {
        "version": VERSION,
        "tree_run_id": run,
        "created_at": created_at(receipts, f"{run}:root"),
        "run_config": {**config, "max_total_idea_evals": config["budget"]["evals"]},
        "conversation_config": {"mode": "off"},
        "root": _root(found),
        "state": _state(found, nodes, evaluations),
        "tasks": [{name: record[name] for name in TASK_FIELDS} for record in evaluations.values()],
        "nodes": nodes,
        "evaluations": evaluations,
        "holdout": _holdout(run, config),
        "conversations": _conversations(found),
        "events": [*EventLog(found.at.of_run(EVENTS)).read()],
    }


def _root(found: RunRecords) -> Record:
    root = found.record(found.at.of_run("root.json")) or {}
    return {
        "repo": root.get("repo"),
        "root_commit": root.get("commit"),
        "root_tree": root.get("tree"),
        "root_baseline_csv_path": found.at.csv(ROOT),
        "root_baseline_csv_sha256": found.sha(found.at.csv(ROOT)),
    }


def _state(found: RunRecords, nodes: Mapping[str, Record], evaluations: Mapping[str, Record]) -> Record:
    done = [*found.promotions]
    of_depth = {d: [name for name, each in nodes.items() if each["depth"] == d] for d in range(len(done) + 1)}
    return {
        "current_depth": len(done),
        "stop_reason": found.promotions[done[-1]]["stop_reason"] if done else None,
        "frontier_node_ids": [name for name, each in nodes.items() if each["status"] == FRONTIER],
        "expanded_node_ids_by_depth": {
            str(d): [name for name in of_depth[d] if nodes[name]["status"] == EXPANDED] for d in done
        },
        "completed_depths": done,
        "task_plan_by_depth": {str(d): [*record["tasks"]] for d, record in found.assignments.items()},
        "depth_progress_by_depth": {str(d): _progress(found, d, evaluations) for d in found.assignments},
        "beam_by_depth": {str(d + 1): found.promotions[d]["beam"] for d in done},
        "deferred_cleanup": _left_over(found),
        **_budget_state(found),
    }


def _holdout(run: str, config: Mapping[str, Any]) -> Record | None:
    """The openings of the seal and their result; None where nothing is held out."""
    found = seal_record(run) if config["holdout"] or os.path.exists(RunLayout(run).of_run(OPENINGS)) else None
    return found and {name: found[name] for name in ("openings", "lacking", "result")}


def _progress(found: RunRecords, depth: int, evaluations: Mapping[str, Record]) -> Record:
    these = [each for each in evaluations.values() if each["depth"] == depth]
    ended = Counter(each["status"] for each in these)
    return {
        "planned": len(found.slots(depth)),
        "assigned": sum(not each["empty"] for each in these),
        **{status: ended[status] for status in (COMPLETED, FAILED, SKIPPED)},
        "unfinished": len(these) - ended[COMPLETED] - ended[FAILED] - ended[SKIPPED],
        "empty": dict(Counter(each["empty"] for each in these if each["empty"])),
        "promoted": sum(bool((each["decision"] or {}).get("promoted_to_node_id")) for each in these),
    }


def _left_over(found: RunRecords) -> list[str]:
    """Checkouts of candidates at work or left by a kill; the next build removes those that are not wanted."""
    folder = found.at.of_run(CANDIDATES)
    if found.config["keep"]["rejected_worktrees"] or not os.path.isdir(folder):
        return []
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]


def _budget_state(found: RunRecords) -> Record:
    """The amounts spent, and those left beside the reserved ones."""
    last = max(found.assignments, default=None)
    depth = {"spent": {}, "reserved": []} if last is None else found.promotions.get(last) or found.assignments[last]
    reserved = dict.fromkeys(depth.get("reserved", ()), Ceiling(**found.config["ceiling"]))
    ledger = BudgetLedger(BudgetLimits(**found.config["budget"]), reserved, spending_of(depth["spent"]))
    return {"spent": total_spending(ledger.spent.values())._asdict(), "left": budget_left(ledger)._asdict()}


def _conversations(found: RunRecords) -> dict[str, str]:
    """The files of questions and answers, by target."""
    paths = {}
    for slot in found.all_slots():
        paths[f"{slot}.idea"] = found.at.idea(slot, "calls.jsonl")
        paths[f"{slot}.implement"] = found.at.of_eval(slot, "calls.jsonl")
    return {name: path for name, path in paths.items() if os.path.exists(path) and os.path.getsize(path)}
