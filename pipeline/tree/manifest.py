"""manifest.json: all that is recorded of a search, folded from its records; it can be made again at any time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from pipeline.tree.layout import CANDIDATES, NODES, Layout
from pipeline.tree.records import Record, load, read_bytes
from pipeline.tree.slots import ROOT, Place, Slot, parse_slot, places_of, slots_of

VERSION = 1
NOTHING: Mapping[str, Record] = {}


def folded(run: str, config: Mapping[str, Any], lives: Mapping[str, Record] = NOTHING) -> Record:
    """`config`: the run's, as a plan has it; `lives`: of the evaluations.  Of what is not there yet nothing is said."""
    manifest = _Fold(run, config).manifest()
    for name, life in lives.items():
        if name in manifest["evaluations"]:
            manifest["evaluations"][name] |= life
    return manifest


class _Fold:
    def __init__(self, run: str, config: Mapping[str, Any]) -> None:
        self.run, self.at, self.config = run, Layout(run), config
        depths = range(config["max_depth"])
        self.promoted = {d: found for d in depths if (found := _maybe(self.at.of_depth(d, "promoted.json")))}
        self.assigned = {d: found for d in depths if (found := _maybe(self.at.of_depth(d, "assigned.json")))}

    def manifest(self) -> Record:
        nodes = {str(place): node for place in self._places() if (node := self._node(place))}
        evaluations = {str(slot): found for slot in self._slots() if (found := self._evaluation(slot))}
        root = _maybe(self.at.of_run("root.json")) or {}
        return {
            "version": VERSION,
            "tree_run_id": self.run,
            "run_config": dict(self.config),
            "root": {
                "repo": root.get("repo"),
                "root_commit": root.get("commit"),
                "root_baseline_csv_path": self._csv(ROOT),
            },
            "state": self._state(nodes),
            "nodes": nodes,
            "evaluations": evaluations,
        }

    def _places(self) -> Iterator[Place]:
        for depth in range(self.config["max_depth"] + 1):
            yield from places_of(depth, self.config["beam_width"])

    def _slots(self) -> Iterator[Slot]:
        for depth in sorted(self.assigned):
            yield from slots_of(depth, self.config["beam_width"], self.config["ideas_per_node"])

    def _state(self, nodes: Mapping[str, Record]) -> Record:
        done = sorted(self.promoted)
        current = done[-1] + 1 if done else 0
        frontier = [name for name in nodes if name.startswith(f"d{current}.")]
        return {
            "current_depth": current,
            "completed_depths": done,
            "frontier_node_ids": frontier,
            "expanded_node_ids_by_depth": {str(d): [n for n in nodes if n.startswith(f"d{d}.")] for d in done},
            "task_plan_by_depth": {str(d): [*found["tasks"]] for d, found in sorted(self.assigned.items())},
            "stop_reason": next((r for d in done if (r := self.promoted[d]["stop_reason"])), None),
            "spent": self.promoted[done[-1]]["spent"] if done else {},
        }

    def _node(self, place: Place) -> Record | None:
        origin, code = (_maybe(self.at.of_node(place, f"{name}.json")) for name in ("origin", "code"))
        if origin is None or code is None or origin["empty"]:
            return None
        folder = self.at.of_run(f"node_ideas/{place}")
        ideas = [self.at.idea(Slot(*place, i), "md") for i in range(self.config["ideas_per_node"])]
        folders = [self.at.of_run(f"node_ideas/{above}") for above in (*origin["ancestors"], str(place))]
        return {
            "parent_node_id": origin["parent_node"],
            "depth": place.depth,
            "commit": code["commit"],
            "tree": code["tree"],
            "worktree_path": self.at.of_run(f"{NODES}/{place}"),
            "ref": f"refs/coppice/{self.run}/{place}",
            "baseline_results_csv_path": self._csv(place),
            "baseline_results_csv_sha256": _sha(self._csv(place)),
            "sweep_config_limit": self.config["sweep_config_limit"],
            "idea_chain": [self.at.idea(parse_slot(slot), "md") for slot in origin["idea_chain"]],
            "closed": origin["closed"],
            "status": "expanded" if place.depth in self.promoted else "frontier",
            "node_ideas_dir": folder,
            "generated_idea_files": [path for path in ideas if os.path.exists(path) and os.path.getsize(path)],
            "context_ideas_dirs": folders,
            "context_idea_files": {path: _sha(path) for above in folders[:-1] for path in _ideas_in(above)},
            "dedupe": {"scope": self.config["dedupe_scope"], "skipped": self._skipped(place)},
            "artifacts": {"promoted_from_eval_id": origin["from_eval"]},
        }

    def _skipped(self, place: Place) -> list[Record]:
        tasks = self.assigned.get(place.depth, {"tasks": {}})["tasks"]
        return [
            {"eval_id": slot, "duplicate_of": task["duplicate_of"], "identity": task["identity"]}
            for slot, task in tasks.items()
            if task["duplicate_of"] and slot.startswith(f"{place}.")
        ]

    def _evaluation(self, slot: Slot) -> Record | None:
        task = self.assigned[slot.depth]["tasks"].get(str(slot))
        if task is None:
            return None
        candidate, summary, sweep, cost = (
            _maybe(self.at.of_eval(slot, name))
            for name in ("candidate.json", "summary.json", "sweep.json", "sweep.cost.json")
        )
        decision = self.promoted.get(slot.depth, {"decisions": {}})["decisions"].get(str(slot))
        return {
            "parent_node_id": str(slot.place),
            "depth": slot.depth,
            "idea_id": slot.idea,
            "idea_path": self.at.idea(slot, "md"),
            "idea_sha256": _sha(self.at.idea(slot, "md")),
            "empty": task["empty"],
            "status": summary["status"] if summary else "pending",
            "error": (summary["why"] or None) if summary else None,
            "experiment_dir": self.at.of_run(f"eval/{slot}"),
            "candidate_commit": candidate["commit"] if candidate else None,
            "candidate_tree": candidate["tree"] if candidate else None,
            "parent_commit": candidate["parent"] if candidate else None,
            "candidate_worktree_path": self.at.of_run(f"{CANDIDATES}/{slot}"),
            "approved": candidate["approved"] if candidate else None,
            "change": {name: candidate[name] for name in ("files", "insertions", "deletions")} if candidate else None,
            "candidate_results_csv_path": self._csv(slot),
            "candidate_results_csv_sha256": sweep["csv_sha256"] if sweep else None,
            "rows_used": summary["rows_used"] if summary else None,
            "defects": summary["defects"] if summary else [],
            "scoring_summary": summary["scoring_summary"] if summary else None,
            "sweep": cost,
            "spent": self.promoted.get(slot.depth, {"spent": {}})["spent"].get(str(slot)),
            "decision": decision,
        }

    def _csv(self, where: Place | Slot) -> str:
        return self.at.csv(where)


def _maybe(path: str) -> Record | None:
    return load(path) if os.path.exists(path) else None


def _sha(path: str) -> str | None:
    return sha256(read_bytes(path)).hexdigest() if os.path.exists(path) else None


def _ideas_in(folder: str) -> list[str]:
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [f"{folder}/{name}" for name in names if name.endswith(".md") and os.path.getsize(f"{folder}/{name}")]
