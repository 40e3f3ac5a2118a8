"""Manifest of a search, folded from its records: an entry a node, an entry an evaluation, the state of the search.

It can be made again at any time.  Only the life cycle of evaluations and the events are not from records but from the
coordinator, who watched the run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import fsum

from pipeline.core.recipe import LIMITS
from pipeline.models.calls import cost_of_calls, read_calls
from pipeline.store.receipts import Receipts
from pipeline.tree.report.money import fold_money
from pipeline.tree.report.run_records import (
    EXPANDED,
    FRONTIER,
    RECORD_FILES,
    RunRecords,
    created_at,
    held_cages,
    node_entry,
)
from pipeline.tree.rules import positions
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.beam import COMPLETED, FAILED, RANK, SAME_CODE, SKIPPED
from pipeline.tree.rules.budget import Spending, budget_left, held_usd, ledger_of, total_spending
from pipeline.tree.rules.scoring import PAIRED, best_config, column_by_config, compare_configs, means_by_config
from pipeline.tree.run.decisions import spending_of
from pipeline.tree.run.records import NEW_LIFE, QUEUED, RUNNING, Record, outage_stop, read_events
from pipeline.tree.run.seal import seal_record
from pipeline.tree.spec.model import Params
from pipeline.trust.series import round_significant

PENDING = "pending"
# By the check that stopped it, when it had passed the gate.
PASSED_BUT = {RANK: "passed, outranked", SAME_CODE: "passed, same code"}
# Fields that only a watcher of the run knows: records are the same whenever they were made.
LIFECYCLE_FIELDS = tuple(NEW_LIFE)
# Steps before the sweep, each with the keys of the configuration that ask for it.
STEPS_BEFORE_SWEEP = {"test": ("tests",), "checks": ("checks", "protect")}
# Of these the score says the same as the pairs that it was made from.
SAME_IN_PAIRS = ("status", "why", "commit", "baseline_sha256", "results_sha256")


class _Evaluation:
    def __init__(
        self, records: RunRecords, slot: positions.EvalSlot, lifecycle: Record, decided: bool, weighed: bool
    ) -> None:
        self.records, self.slot, self.lifecycle = records, slot, lifecycle
        self.task = records.assignments[slot.depth]["tasks"][str(slot)]
        self.candidate = self._read("candidate.json") or {}
        # by blocks an idea has ended before its verdict is known
        self.pairs = (self._read("pairs.json") or {}) if records.config["method"] == PAIRED else {}
        scored = self._read("summary.json") or self.pairs
        # where it was measured anew, by a retry for instance, the score is still that of what was measured before
        outdated = any(self.pairs[key] != scored.get(key) for key in SAME_IN_PAIRS if self.pairs)
        self.summary = self.pairs if self.pairs and (outdated or not weighed) else scored
        self.before = [step for step, keys in STEPS_BEFORE_SWEEP.items() if any(records.config[key] for key in keys)]
        names = (*self.before, "sweep")
        self.costs = {name: cost for name in names if (cost := self._read(f"{name}.cost.json"))}
        promoted = (records.promotions if decided else {}).get(slot.depth, {"decisions": {}, "spent": {}})
        self.decision, spent = promoted["decisions"].get(str(slot)), promoted["spent"]
        self.spent = [Spending(*spent[name]) for name in (str(slot), f"{slot}.idea") if name in spent]

    def _path(self, name: str) -> str:
        return self.records.at.of_eval(self.slot, name)

    def _read(self, name: str) -> Record | None:
        return self.records.record(self._path(name))

    def record(self) -> Record:
        status = self.summary.get("status", PENDING)
        if status == PENDING and self.lifecycle.get("task_state") == RUNNING:
            status = RUNNING
        return {
            "eval_id": str(self.slot),
            "parent_node_id": str(self.slot.place),
            "depth": self.slot.depth,
            **self._idea(),
            "status": status,
            "error": self._error() if status == FAILED else None,
            **self._lifecycle_fields(),
            "cages": self._cages(),
            **self._code(),
            **self._result_fields(),
            "experiment_dir": self.records.at.of_run(f"eval/{self.slot}"),
            "files": self._files(),
            "decision": self.decision,
            "outcome": self._outcome(status),
        }

    def _outcome(self, status: str) -> str | None:
        """The end of an idea in words; None while it is open."""
        if status in (FAILED, SKIPPED):
            return status
        if self.decision is None:
            return None
        if self.decision["promoted_to_node_id"]:
            return "promoted"
        return PASSED_BUT.get(self.decision["failed_check"], "not passed")

    def _idea(self) -> Record:
        records, path = self.records, self.records.at.idea(self.slot, "md")
        made = records.record(records.at.idea(self.slot, "json")) or {}
        return {
            "idea_id": self.slot.idea,
            "idea_path": path,
            "idea_text_path": path,
            "idea_sha256": records.sha(path),
            "idea_title": idea_title((records.content(path) or b"").decode(errors="replace")),
            "idea_source": made.get("source"),
            "idea_defects": made.get("defects", []),
            "empty": self.task["empty"],
            "empty_why": self.task["why"],
            "duplicate_of": self.task["duplicate_of"],
        }

    def _error(self) -> Record:
        """The error of the first step that failed; a candidate that was not made has no steps after that."""
        stage, record, log = "implement", self.candidate, self._path("calls.jsonl")
        if record.get("status") != FAILED:
            steps = ((step, self._read(f"{step}.json") or {}) for step in (*self.before, "sweep"))
            stage, record = next((step for step in steps if step[1].get("status") == FAILED), ("implement", {}))
            log = log if stage == "implement" else self._path(f"{stage}.log")
        folder = self.records.at.of_run(".coppice/logs")
        printed = [f"{folder}/{self.slot}.{step}.log" for step in ("implement", "ahead")]
        log = next(filter(os.path.exists, printed), log) if stage == "implement" else log
        return {"stage": stage, "why": self.summary["why"], "exit": record.get("exit"), "log": log}

    def _lifecycle_fields(self) -> Record:
        attempts = {name: cost["attempts"] for name, cost in self.costs.items()}
        return {
            **dict.fromkeys(LIFECYCLE_FIELDS),
            "attempt": max(attempts.values(), default=None),
            "task_state": self.summary.get("status", QUEUED),
            **{name: self.lifecycle[name] for name in LIFECYCLE_FIELDS if name in self.lifecycle},
            "attempts": attempts,
            "seconds": {name: cost["seconds"] for name, cost in self.costs.items()},
            "spent": self._spending(),
        }

    def _cages(self) -> Record:
        paths = [path for _, path in call_files(self.records, self.slot) if path not in self.records.without]
        return {} if self.task["empty"] else held_cages(self.costs, paths)

    def _spending(self) -> Record | None:
        """The cost with the idea and all calls; before the depth is done, by the records that its end will count."""
        if self.spent or not self.summary or self.task["empty"]:
            return total_spending(self.spent)._asdict() if self.spent else None
        idea = self.records.record(self.records.at.idea(self.slot, "json")) or {"usd": 0, "tokens": 0, "seconds": 0}
        path = self._path(RECORD_FILES["calls"])
        calls = cost_of_calls([*read_calls(path)] if os.path.exists(path) and os.path.getsize(path) else [])
        seconds = calls["seconds"] + sum(cost["seconds"] for cost in self.costs.values())
        own = spending_of(1, {**calls, "seconds": round(seconds, 3)})
        return total_spending([own, spending_of(0, idea)])._asdict()

    def _code(self) -> Record:
        made = self.candidate
        commit, rounds = made.get("commit") or None, made.get("rounds", 0)
        return {
            "parent_commit": made.get("parent") or None,
            "candidate_commit": commit,
            "candidate_tree": made.get("tree") or None,
            "candidate_ref": f"refs/coppice/{self.records.run}/{self.slot}" if commit else None,
            "candidate_worktree_path": self.records.at.of_run(f"{positions.CANDIDATES}/{self.slot}"),
            "approved": made.get("approved"),
            "review_round_files": [self._path(f"review_round_{n}.md") for n in range(1, rounds + 1)],
            "change": {name: made[name] for name in ("files", "insertions", "deletions")} if commit else None,
            "left_out": made.get("left_out") or [],
            "partial": made.get("partial"),
        }

    def _result_fields(self) -> Record:
        summary, at = self.summary, self.records.at
        stopped = self.records.stopped_after(self.slot) if summary else 0
        cascade = self.records.cascade(self.slot.depth)  # by the first blocks, among the ideas of the depth
        return {
            "baseline_results_csv_path": at.csv(self.slot.place),
            "baseline_results_csv_sha256": summary.get("baseline_sha256") or None,
            "candidate_results_csv_path": at.csv(self.slot) if summary.get("results_sha256") else None,
            "candidate_results_csv_sha256": summary.get("results_sha256") or None,
            "candidate_rows_used": summary.get("rows_used"),
            "rows_expected": summary.get("rows_expected"),
            "defects": summary.get("defects", []),
            "stopped_after_blocks": stopped or None,
            "cascade": cascade and cascade["ideas"].get(str(self.slot)),
            "scoring_summary": summary.get("scoring_summary"),
            "primary": self._primary(),
            **(self._by_config(stopped) if summary.get("scoring_summary") else NOT_BY_CONFIG),
        }

    def _primary(self) -> Record | None:
        """The means of the primary metric: the parent's and its own, also before the verdict is known."""
        name, scores = self.records.config["primary"], self.summary.get("scoring_summary")
        if scores:
            found = next((each for each in scores["recommendation"]["metrics"] if each["name"] == name), None)
            return found and {"before": found["baseline"], "after": found["candidate"]}  # an older spec may lack it
        series = self.pairs.get("series", {}).get(name)
        if not series or not series["own"]:
            return None
        return {side: fsum(series[key]) / len(series[key]) for side, key in (("before", "parent"), ("after", "own"))}

    def _by_config(self, stopped: int) -> Mapping[str, Record | None]:
        """The comparison config by config; none unless both files are those that were scored, by today's spec."""
        records, place = self.records, self.slot.place
        own, parent = records.content(records.at.csv(self.slot)), records.baseline(place)
        if not own or not parent or parent.defects:
            return NOT_BY_CONFIG
        shas = sha256(own).hexdigest(), records.sha(records.at.csv(place))
        if shas != (self.summary["results_sha256"], self.summary["baseline_sha256"]):
            return NOT_BY_CONFIG
        if records.expected_rows and stopped:
            blocks = records.expected_rows.first_blocks(stopped).blocks
            parent = parent._replace(rows=tuple(row for row in parent.rows if row.block in blocks))
        name = records.config["primary"]
        better = next(metric["better"] for metric in records.config["metrics"] if metric["name"] == name)
        block = records.config["blocks"]["column"] if records.config["blocks"] else ""
        before: dict[int, dict[str, float]] = {}
        for row in parent.rows:
            before.setdefault(row.config_id, {})[row.block] = row.metrics[name]
        after = column_by_config(own.decode(errors="replace"), name, before, block)
        if {c: {*row} for c, row in after.items()} != {c: {*row} for c, row in before.items()}:
            return NOT_BY_CONFIG
        old, new = ({c: [side[c][b] for b in row] for c, row in before.items()} for side in (before, after))
        how = {key: value for key, value in records.config.items() if key in ("ordered", "rho", "repeats")}
        best = best_config(better, old, new, **how)
        compared = compare_configs(better, means_by_config(old), means_by_config(new))
        return {"by_config": compared._asdict(), "best_config": best._asdict()}

    def _files(self) -> Record:
        if not self.summary or self.task["empty"]:
            return {}
        names = RECORD_FILES | {step: f"{step}.json" for step in self.before}
        names |= {f"{step}_log": f"{step}.log" for step in self.before}
        return {name: self._path(file) for name, file in names.items()}


def idea_title(text: str) -> str:
    """The first line of an idea."""
    lines = (line.strip(" #*") for line in parse_idea(text).sections.get("IDEA", text).splitlines())
    return next(filter(None, lines), "")


VERSION = 3
TASK_FIELDS = ("eval_id", "parent_node_id", "idea_path", "depth", "task_state")
NOT_BY_CONFIG: Mapping[str, Record | None] = {"by_config": None, "best_config": None}
NO_LIFE: Record = {}


def fold_manifest(
    run: str, config: Params, lifecycle: Mapping[str, Record] = NO_LIFE, without: frozenset[str] = frozenset()
) -> Record:
    """Fold the records of a run into its manifest; records that are not there yet are left out.

    `config`: the run's, as its plan has it; `lifecycle`: of each evaluation, from a watcher of the run; `without`:
    paths of records that must not be believed."""
    records = RunRecords(run, config, without)
    evaluations = {
        str(slot): evaluation_entry(records, slot, lifecycle.get(str(slot), {})) for slot in records.assigned_slots
    }
    calls = {name: path for slot in records.shape.all_slots() for name, path in call_files(records, slot)}
    events = [*read_events(records.at.of_run(positions.EVENTS))]
    return whole_manifest(records, node_entries(records), evaluations, calls, events)


def node_entries(records: RunRecords) -> dict[str, Record]:
    receipts = Receipts(records.run)
    receipts.names()  # many are going to be looked up
    return {str(p): entry for p in records.shape.all_places() if (entry := node_entry(records, p, receipts))}


def evaluation_entry(
    records: RunRecords, slot: positions.EvalSlot, lifecycle: Record, decided: bool = True, weighed: bool = True
) -> Record:
    """The entry of a slot that something has been assigned to.

    Not `decided`, or not `weighed`: what its depth has of that is of earlier answers, as after a retry."""
    return _Evaluation(records, slot, lifecycle, decided, weighed).record()


def relived_entry(entry: Record, lifecycle: Record) -> Record:
    """The entry of a slot whose records are the same, and of whose life more is known."""
    status = entry["status"]
    if status in (PENDING, RUNNING):
        status = RUNNING if lifecycle.get("task_state") == RUNNING else PENDING
    known = {name: lifecycle[name] for name in LIFECYCLE_FIELDS if name in lifecycle}
    return {**entry, "status": status, **known}


def call_files(records: RunRecords, slot: positions.EvalSlot) -> Iterator[tuple[str, str]]:
    """The targets of a slot that have asked somebody, and the files with the calls."""
    at = records.at
    for name, path in (("idea", at.idea(slot, "calls.jsonl")), ("implement", at.of_eval(slot, "calls.jsonl"))):
        if os.path.exists(path) and os.path.getsize(path):
            yield f"{slot}.{name}", path


def whole_manifest(
    records: RunRecords,
    nodes: Mapping[str, Record],
    evaluations: Mapping[str, Record],
    calls: Mapping[str, str],
    events: Sequence[Record],
) -> Record:
    """The manifest of its parts; what is short is read anew."""
    run, at, config = records.run, records.at, records.config
    root, receipts = records.record(at.of_run("root.json")) or {}, Receipts(run)
    return {
        "version": VERSION,
        "tree_run_id": run,
        "created_at": created_at(receipts, f"{run}:root"),
        "run_config": run_config(config),
        "conversation_config": {"mode": "off"},
        "root": {
            "repo": root.get("repo"),
            "root_commit": root.get("commit"),
            "root_tree": root.get("tree"),
            "root_baseline_csv_path": at.csv(positions.ROOT),
            "root_baseline_csv_sha256": records.sha(at.csv(positions.ROOT)),
        },
        "state": _state(records, nodes, evaluations, events),
        "tasks": [{name: entry[name] for name in TASK_FIELDS} for entry in evaluations.values()],
        "nodes": nodes,
        "evaluations": evaluations,
        "holdout": sealed_record(run, config),
        "conversations": calls,
        "money": fold_money(run, records.shape.all_slots()),
        "events": events,
    }


def sealed_record(run: str, config: Params) -> Record | None:
    """The openings of what is held out, and what came of the last one; None where nothing is."""
    if not config["holdout"] and not os.path.exists(positions.RunLayout(run).of_run(positions.OPENINGS)):
        return None
    sealed = seal_record(run)
    return {name: sealed[name] for name in ("openings", "lacking", "result")}


def run_config(config: Params) -> Record:
    """The configuration with the cages that the spec names, which no result of the report depends on."""
    own = {name: value for name, value in config.items() if name != LIMITS}
    named = config.get(LIMITS, {})
    return {**own, **named, "max_total_idea_evals": config["budget"]["evals"]}


def _state(
    records: RunRecords, nodes: Mapping[str, Record], evaluations: Mapping[str, Record], events: Iterable[Record]
) -> Record:
    promotions, assignments = records.promotions, records.assignments
    expanded: dict[str, list[str]] = {str(depth): [] for depth in promotions}
    for name, each in nodes.items():
        if each["status"] == EXPANDED:
            expanded[str(each["depth"])].append(name)
    # checkouts of candidates at work or left by a kill; the next build removes those that are not wanted
    candidates = records.at.of_run(positions.CANDIDATES)
    swept = os.path.isdir(candidates) and not records.config["keep"]["rejected_worktrees"]
    left = os.listdir(candidates) if swept else []
    return {
        "current_depth": len(promotions),
        "stop_reason": _stop_reason(records, events),
        "frontier_node_ids": [name for name, each in nodes.items() if each["status"] == FRONTIER],
        "expanded_node_ids_by_depth": expanded,
        "completed_depths": [*promotions],
        "task_plan_by_depth": {str(d): [*record["tasks"]] for d, record in assignments.items()},
        "depth_progress_by_depth": {
            str(d): depth_progress(len(records.shape.slots(d)), d, evaluations) for d in assignments
        },
        "beam_by_depth": {str(d + 1): record["beam"] for d, record in promotions.items()},
        "deferred_cleanup": [f"{candidates}/{name}" for name in sorted(left)],
        **_budget_state(records, evaluations),
    }


def _stop_reason(records: RunRecords, events: Iterable[Record]) -> str | None:
    """The reason of the search to stop; or that of an outage, until the next build of it begins."""
    last = next(reversed(records.promotions.values()), None)
    out = None if last and last["stop_reason"] else outage_stop(events)
    reason: str | None = out["stop_reason"] if out else last["stop_reason"] if last else None
    return reason


def depth_progress(planned: int, depth: int, evaluations: Mapping[str, Record]) -> Record:
    """The counts of one depth."""
    these = [each for each in evaluations.values() if each["depth"] == depth]
    ended = Counter(each["status"] for each in these)
    return {
        "planned": planned,
        "assigned": sum(not each["empty"] for each in these),
        **{status: ended[status] for status in (COMPLETED, FAILED, SKIPPED)},
        "unfinished": len(these) - ended[COMPLETED] - ended[FAILED] - ended[SKIPPED],
        "empty": dict(Counter(each["empty"] for each in these if each["empty"])),
        "promoted": sum(bool((each["decision"] or {}).get("promoted_to_node_id")) for each in these),
    }


def _budget_state(records: RunRecords, evaluations: Mapping[str, Record]) -> Record:
    """The amounts spent, and those left beside the reserved ones; of a depth that is not over by what has ended."""
    depths = len(records.promotions)
    over: Record = next(reversed(records.promotions.values()), {"spent": {}, "stop_reason": None})
    if under_way := None if over["stop_reason"] else records.assignments.get(depths):
        # fewer ideas may be wanted by now than were assigned
        reserved = [name for name in under_way["reserved"] if name in evaluations]
        ended = {name: each["spent"] for name in reserved if (each := evaluations[name])["spent"]}
        ideas = {name: Spending(*under_way["spent"].get(f"{name}.idea", ())) for name in ended}
        spent = {**under_way["spent"], **{name: _without(Spending(**ended[name]), ideas[name]) for name in ended}}
        ledger = ledger_of(records.config, [name for name in reserved if name not in ended], spent)
    else:
        asked = {} if over["stop_reason"] else dict(_asked_ideas(records, depths))
        ledger = ledger_of(records.config, spent={**over["spent"], **asked})
    spent, left = total_spending(ledger.spent.values())._asdict(), budget_left(ledger)._asdict()
    return {"spent": spent, "held_usd": held_usd(ledger), "left": left}


def _without(whole: Spending, part: Spending) -> list[float]:
    usd, seconds = (round_significant(a - b) for a, b in ((whole.usd, part.usd), (whole.seconds, part.seconds)))
    evals, tokens, unknown = whole.evals - part.evals, whole.tokens - part.tokens, whole.unknown_calls
    return Spending(evals, usd, tokens, seconds, unknown - part.unknown_calls).as_list


def _asked_ideas(records: RunRecords, depth: int) -> Iterator[tuple[str, list[float]]]:
    """The cost of ideas of a depth that has no assignments yet."""
    for slot in records.shape.slots(depth) if depth in records.shape.depths else ():
        if cost := records.record(records.at.idea(slot, "json")):
            yield f"{slot}.idea", spending_of(0, cost).as_list
