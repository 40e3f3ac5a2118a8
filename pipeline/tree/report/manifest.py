"""Manifest of a search, folded from its records: an entry a node, an entry an evaluation, the state of the search.

RunRecords reads the records of a run on demand; unreliable ones count as missing.  The manifest can be made again at
any time.  Only the life cycle of evaluations and the events are not from records but from the coordinator, who watched
the run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from hashlib import sha256
from math import fsum

from pipeline.store.files import read_bytes
from pipeline.store.receipts import Receipts
from pipeline.tree.rules import positions
from pipeline.tree.rules.assignment import parse_idea
from pipeline.tree.rules.beam import COMPLETED, FAILED, SKIPPED
from pipeline.tree.rules.budget import Spending, budget_left, ledger_of, total_spending
from pipeline.tree.rules.scoring import best_config, column_by_config, compare_configs, means_by_config
from pipeline.tree.rules.sheet import CheckedRows, ExpectedRows, check_rows
from pipeline.tree.run.records import NEW_LIFE, QUEUED, RUNNING, Record, load_if_intact, read_events
from pipeline.tree.run.seal import seal_record
from pipeline.tree.run.verdicts import expected_by_sheet, sheet_of
from pipeline.tree.spec.model import Params, shape_of

EXPANDED, FRONTIER = "expanded", "frontier"
EMPTY_SHA = sha256(b"").hexdigest()


class RunRecords:
    """The records of a run.  `config`: the run's, as its plan has it.  `without`: paths of unreliable records."""

    def __init__(self, run: str, config: Params, without: frozenset[str] = frozenset()) -> None:
        self.run, self.at, self.config, self.without = run, positions.RunLayout(run), config, without
        self.shape = shape_of(config)
        # many children name their ancestors' ideas, and are compared with the same node
        self.sha, self.baseline, self.cascade = cache(self._sha), cache(self._baseline), cache(self._cascade)

    @cached_property
    def assignments(self) -> dict[int, Record]:
        return {d: found for d in self.shape.depths if (found := self.record(self.at.of_depth(d, "assigned.json")))}

    @cached_property
    def promotions(self) -> dict[int, Record]:
        """The promotions of the depths that are done: none after the one at which the search stopped."""
        done: dict[int, Record] = {}
        for depth in self.shape.depths:
            found = self.record(self.at.of_depth(depth, "promoted.json"))
            if found is None:
                break
            done[depth] = found
            if found["stop_reason"]:
                break
        return done

    def _cascade(self, depth: int) -> Record | None:
        return self.record(self.at.of_depth(depth, "cascade.json")) if self.config["cascade"] else None

    def record(self, path: str) -> Record | None:
        return None if path in self.without else load_if_intact(path)

    def content(self, path: str) -> bytes | None:
        try:
            return None if path in self.without else read_bytes(path)
        except FileNotFoundError:
            return None

    def _sha(self, path: str) -> str | None:
        content = self.content(path)
        return None if content is None else sha256(content).hexdigest()

    def ideas(self, place: positions.NodePlace) -> list[str]:
        """The files of a node's ideas that are not empty, in the order of the slots."""
        paths = [self.at.idea(positions.EvalSlot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        return [path for path in paths if self.sha(path) not in (None, EMPTY_SHA)]

    def stopped_after(self, slot: positions.EvalSlot) -> int:
        """The number of blocks of a candidate that the cascade stopped; 0 of any other."""
        return int((self.record(self.at.of_eval(slot, "sweep.json")) or {}).get("stopped_after", 0))

    def _baseline(self, place: positions.NodePlace) -> CheckedRows | None:
        """The rows of a node."""
        content, wanted = self.content(self.at.csv(place)), self.expected_rows
        return check_rows(sheet_of(self.config, content), wanted) if content and wanted else None

    @cached_property
    def expected_rows(self) -> ExpectedRows | None:
        root = self.content(self.at.csv(positions.ROOT))
        return None if root is None else expected_by_sheet(self.config, sheet_of(self.config, root))


def node_entry(records: RunRecords, place: positions.NodePlace, receipts: Receipts) -> Record | None:
    """The entry of a node; None for a place that is empty or not decided yet."""
    at, config = records.at, records.config
    origin, code = (records.record(at.of_node(place, f"{name}.json")) for name in ("origin", "code"))
    if origin is None or code is None or origin["empty"]:
        return None
    above = [positions.parse_place(name) for name in origin["ancestors"]]
    folders = [at.of_run(f"node_ideas/{each}") for each in (*above, place)]
    tasks = records.assignments.get(place.depth, {"tasks": {}})["tasks"]
    return {
        "parent_node_id": origin["parent_node"],
        "depth": place.depth,
        "status": EXPANDED if place.depth in records.promotions else FRONTIER,
        "closed": origin["closed"],
        "created_at": created_at(receipts, f"{records.run}:{place}.node"),
        "commit": code["commit"],
        "tree": code["tree"],
        "ref": f"refs/coppice/{records.run}/{place}",
        "worktree_path": at.of_run(f"{positions.NODES}/{place}"),
        "baseline_results_csv_path": at.csv(place),
        "baseline_results_csv_sha256": records.sha(at.csv(place)),
        "metrics": node_means(records, place),
        **({"given_by": config["baseline_csv"]} if place == positions.ROOT and "baseline_csv" in config else {}),
        "sweep_config_limit": config["sweep_config_limit"],
        "idea_chain": idea_chain(records, origin),
        "node_ideas_dir": folders[-1],
        "generated_idea_files": records.ideas(place),
        "context_ideas_dirs": folders,
        "context_idea_files": {path: records.sha(path) for each in above for path in records.ideas(each)},
        "dedupe": {
            "scope": config["dedupe_scope"],
            "skipped": [
                {"eval_id": slot, "duplicate_of": task["duplicate_of"], "identity": task["identity"]}
                for slot, task in tasks.items()
                if task["duplicate_of"] and positions.parse_slot(slot).place == place
            ],
        },
        "artifacts": _artifacts(records, origin["from_eval"]),
    }


def node_means(records: RunRecords, place: positions.NodePlace) -> dict[str, float]:
    """The means of a node's rows, which are complete: other code never becomes a node."""
    checked = records.baseline(place)
    if checked is None or checked.defects or not checked.rows:
        return {}
    names = (metric["name"] for metric in records.config["metrics"])
    return {name: fsum(row.metrics[name] for row in checked.rows) / len(checked.rows) for name in names}


def idea_chain(records: RunRecords, origin: Record) -> list[str]:
    """The ideas on the way to a node, followed upwards: the record may have been made in another run."""
    chain: list[str] = []
    above: Record | None = origin
    while above and above["from_eval"]:
        slot = positions.parse_slot(above["from_eval"])
        chain.insert(0, records.at.idea(slot, "md"))
        above = records.record(records.at.of_node(slot.place, "origin.json"))
    return chain


def _artifacts(records: RunRecords, source: str | None) -> Record:
    """The files that a node was made from; the root has its baseline alone."""
    at, names = records.at, ("sweep.json", "sweep.log")
    if source is None:
        sweep, log = (at.of_node(positions.ROOT, name) for name in names)
        return {"promoted_from_eval_id": None, "sweep": sweep, "sweep_log": log}
    slot = positions.parse_slot(source)
    files = {name: at.of_eval(slot, RECORD_FILES[name]) for name in ("summary", "change", "sweep", "sweep_log")}
    return {"promoted_from_eval_id": source, **files, "candidate_results_csv_path": at.csv(slot)}


def created_at(receipts: Receipts, target: str) -> str | None:
    receipt = receipts.receipt(target)
    return datetime.fromtimestamp(receipt.end, UTC).isoformat(timespec="seconds") if receipt else None


PENDING = "pending"
# Fields that only a watcher of the run knows: records are the same whenever they were made.
LIFECYCLE_FIELDS = tuple(NEW_LIFE)
RECORD_FILES = {name: f"{name}.json" for name in ("task", "candidate", "sweep", "summary")}
RECORD_FILES |= {"change": "change.patch", "calls": "calls.jsonl", "sweep_log": "sweep.log"}
# Steps before the sweep, each with the keys of the configuration that ask for it.
STEPS_BEFORE_SWEEP = {"test": ("tests",), "checks": ("checks", "protect")}


class _Evaluation:
    def __init__(self, records: RunRecords, slot: positions.EvalSlot, task: Record, lifecycle: Record) -> None:
        self.records, self.slot, self.task, self.lifecycle = records, slot, task, lifecycle
        self.candidate, self.summary = self._read("candidate.json") or {}, self._read("summary.json") or {}
        self.before = [step for step, keys in STEPS_BEFORE_SWEEP.items() if any(records.config[key] for key in keys)]
        names = (*self.before, "sweep")
        self.costs = {name: cost for name in names if (cost := self._read(f"{name}.cost.json"))}
        promoted = records.promotions.get(slot.depth, {"decisions": {}, "spent": {}})
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
            **self._code(),
            **self._result_fields(),
            "experiment_dir": self.records.at.of_run(f"eval/{self.slot}"),
            "files": self._files(),
            "decision": self.decision,
        }

    def _idea(self) -> Record:
        records, path = self.records, self.records.at.idea(self.slot, "md")
        return {
            "idea_id": self.slot.idea,
            "idea_path": path,
            "idea_text_path": path,
            "idea_sha256": records.sha(path),
            "idea_title": idea_title((records.content(path) or b"").decode(errors="replace")),
            "idea_source": (records.record(records.at.idea(self.slot, "json")) or {}).get("source"),
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
        printed = f"{self.records.at.of_run('.coppice/logs')}/{self.slot}.implement.log"
        log = printed if stage == "implement" and os.path.exists(printed) else log
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
            "spent": total_spending(self.spent)._asdict() if self.spent else None,
        }

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
            **(self._by_config(stopped) if summary.get("scoring_summary") else NOT_BY_CONFIG),
        }

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


def evaluation_entry(run: str, config: Params, slot: positions.EvalSlot) -> Record:
    """The entry of one evaluation in the manifest; empty for a slot that has no task yet."""
    records = RunRecords(run, config)
    task = records.assignments.get(slot.depth, {"tasks": {}})["tasks"].get(str(slot))
    return _Evaluation(records, slot, task, {}).record() if task else {}


VERSION = 3
TASK_FIELDS = ("eval_id", "parent_node_id", "idea_path", "depth", "task_state")
NOT_BY_CONFIG: Mapping[str, Record | None] = {"by_config": None, "best_config": None}
NO_LIFE: Mapping[str, Record] = {}


def fold_manifest(
    run: str, config: Params, lifecycle: Mapping[str, Record] = NO_LIFE, without: frozenset[str] = frozenset()
) -> Record:
    """Fold the records of a run into its manifest; records that are not there yet are left out.

    `config`: the run's, as its plan has it; `lifecycle`: of each evaluation, from a watcher of the run; `without`:
    paths of records that must not be believed."""
    records, receipts = RunRecords(run, config, without), Receipts(run)
    receipts.names()  # many are going to be looked up
    at, root = records.at, records.record(records.at.of_run("root.json")) or {}
    nodes = {str(p): entry for p in records.shape.all_places() if (entry := node_entry(records, p, receipts))}
    evaluations: dict[str, Record] = {}
    for slot in records.shape.all_slots():  # those that something has been assigned to
        if task := records.assignments.get(slot.depth, {"tasks": {}})["tasks"].get(str(slot)):
            evaluations[str(slot)] = _Evaluation(records, slot, task, lifecycle.get(str(slot), {})).record()
    asked = {f"{slot}.idea": at.idea(slot, "calls.jsonl") for slot in records.shape.all_slots()}
    asked |= {f"{slot}.implement": at.of_eval(slot, "calls.jsonl") for slot in records.shape.all_slots()}
    sealed = seal_record(run) if config["holdout"] or os.path.exists(at.of_run(positions.OPENINGS)) else None
    return {
        "version": VERSION,
        "tree_run_id": run,
        "created_at": created_at(receipts, f"{run}:root"),
        "run_config": {**config, "max_total_idea_evals": config["budget"]["evals"]},
        "conversation_config": {"mode": "off"},
        "root": {
            "repo": root.get("repo"),
            "root_commit": root.get("commit"),
            "root_tree": root.get("tree"),
            "root_baseline_csv_path": at.csv(positions.ROOT),
            "root_baseline_csv_sha256": records.sha(at.csv(positions.ROOT)),
        },
        "state": _state(records, nodes, evaluations),
        "tasks": [{name: entry[name] for name in TASK_FIELDS} for entry in evaluations.values()],
        "nodes": nodes,
        "evaluations": evaluations,
        "holdout": sealed and {name: sealed[name] for name in ("openings", "lacking", "result")},
        "conversations": {n: path for n, path in asked.items() if os.path.exists(path) and os.path.getsize(path)},
        "events": [*read_events(at.of_run(positions.EVENTS))],
    }


def _state(records: RunRecords, nodes: Mapping[str, Record], evaluations: Mapping[str, Record]) -> Record:
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
        "stop_reason": next(reversed(promotions.values()))["stop_reason"] if promotions else None,
        "frontier_node_ids": [name for name, each in nodes.items() if each["status"] == FRONTIER],
        "expanded_node_ids_by_depth": expanded,
        "completed_depths": [*promotions],
        "task_plan_by_depth": {str(d): [*record["tasks"]] for d, record in assignments.items()},
        "depth_progress_by_depth": {str(d): _progress(records, d, evaluations) for d in assignments},
        "beam_by_depth": {str(d + 1): record["beam"] for d, record in promotions.items()},
        "deferred_cleanup": [f"{candidates}/{name}" for name in sorted(left)],
        **_budget_state(records),
    }


def _progress(records: RunRecords, depth: int, evaluations: Mapping[str, Record]) -> Record:
    these = [each for each in evaluations.values() if each["depth"] == depth]
    ended = Counter(each["status"] for each in these)
    return {
        "planned": len(records.shape.slots(depth)),
        "assigned": sum(not each["empty"] for each in these),
        **{status: ended[status] for status in (COMPLETED, FAILED, SKIPPED)},
        "unfinished": len(these) - ended[COMPLETED] - ended[FAILED] - ended[SKIPPED],
        "empty": dict(Counter(each["empty"] for each in these if each["empty"])),
        "promoted": sum(bool((each["decision"] or {}).get("promoted_to_node_id")) for each in these),
    }


def _budget_state(records: RunRecords) -> Record:
    """The amounts spent, and those left beside the reserved ones."""
    last = max(records.assignments, default=None)
    depth = {"spent": {}, "reserved": []} if last is None else records.promotions.get(last) or records.assignments[last]
    ledger = ledger_of(records.config, depth.get("reserved", ()), depth["spent"])
    return {"spent": total_spending(ledger.spent.values())._asdict(), "left": budget_left(ledger)._asdict()}
