"""manifest.json: all that is recorded of a search, folded from its records; it can be made again at any time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.edge.receipts import Receipts
from pipeline.tree.assigning import spent_of
from pipeline.tree.budget import Ceiling, Ledger, Limits, left, total
from pipeline.tree.event_log import EventLog
from pipeline.tree.found import Found
from pipeline.tree.gate import COMPLETED, FAILED, SKIPPED
from pipeline.tree.holding_told import told
from pipeline.tree.layout import CANDIDATES, EVENTS, OPENINGS, Layout
from pipeline.tree.manifest_evaluations import evaluation
from pipeline.tree.manifest_nodes import EXPANDED, FRONTIER, created_at, node
from pipeline.tree.records import Record
from pipeline.tree.slots import ROOT

VERSION = 3
TASK = ("eval_id", "parent_node_id", "idea_path", "depth", "task_state")
NO_LIFE: Mapping[str, Record] = {}


def folded(
    run: str,
    config: Mapping[str, Any],
    lifecycle: Mapping[str, Record] = NO_LIFE,
    without: frozenset[str] = frozenset(),
) -> Record:
    """`config`: the run's, as a plan has it.  Of what is not there yet nothing is said.

    `lifecycle`: what whoever watched the run knows of each evaluation; `without`: records that must not be believed."""
    found, receipts = Found(run, config, without), Receipts(run)
    receipts.names()  # many are going to be looked up
    nodes = {str(p): record for p in found.all_places() if (record := node(found, p, receipts))}
    evaluations = {
        str(slot): record
        for slot in found.all_slots()
        if (record := evaluation(found, slot, lifecycle.get(str(slot), {})))
    }
    return {
        "version": VERSION,
        "tree_run_id": run,
        "created_at": created_at(receipts, f"{run}:root"),
        "run_config": {**config, "max_total_idea_evals": config["budget"]["evals"]},
        "conversation_config": {"mode": "off"},
        "root": _root(found),
        "state": _state(found, nodes, evaluations),
        "tasks": [{name: record[name] for name in TASK} for record in evaluations.values()],
        "nodes": nodes,
        "evaluations": evaluations,
        "holdout": _holdout(run, config),
        "conversations": _conversations(found),
        "events": [*EventLog(found.at.of_run(EVENTS)).read()],
    }


def _root(found: Found) -> Record:
    root = found.record(found.at.of_run("root.json")) or {}
    return {
        "repo": root.get("repo"),
        "root_commit": root.get("commit"),
        "root_tree": root.get("tree"),
        "root_baseline_csv_path": found.at.csv(ROOT),
        "root_baseline_csv_sha256": found.sha(found.at.csv(ROOT)),
    }


def _state(found: Found, nodes: Mapping[str, Record], evaluations: Mapping[str, Record]) -> Record:
    done = [*found.promoted]
    of_depth = {d: [name for name, each in nodes.items() if each["depth"] == d] for d in range(len(done) + 1)}
    return {
        "current_depth": len(done),
        "stop_reason": found.promoted[done[-1]]["stop_reason"] if done else None,
        "frontier_node_ids": [name for name, each in nodes.items() if each["status"] == FRONTIER],
        "expanded_node_ids_by_depth": {
            str(d): [name for name in of_depth[d] if nodes[name]["status"] == EXPANDED] for d in done
        },
        "completed_depths": done,
        "task_plan_by_depth": {str(d): [*record["tasks"]] for d, record in found.assigned.items()},
        "depth_progress_by_depth": {str(d): _progress(found, d, evaluations) for d in found.assigned},
        "beam_by_depth": {str(d + 1): found.promoted[d]["beam"] for d in done},
        "deferred_cleanup": _left_over(found),
        **_money(found),
    }


def _holdout(run: str, config: Mapping[str, Any]) -> Record | None:
    """Whether the seal was opened, and what that found; None where nothing is held out."""
    found = told(run) if config["holdout"] or os.path.exists(Layout(run).of_run(OPENINGS)) else None
    return found and {name: found[name] for name in ("openings", "lacking", "result")}


def _progress(found: Found, depth: int, evaluations: Mapping[str, Record]) -> Record:
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


def _left_over(found: Found) -> list[str]:
    """Checkouts of candidates: of those at work now, or left by a kill; the next build removes what is not wanted."""
    folder = found.at.of_run(CANDIDATES)
    if found.config["keep"]["rejected_worktrees"] or not os.path.isdir(folder):
        return []
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]


def _money(found: Found) -> Record:
    """Of all that has ended, and what is left beside what was reserved since."""
    last = max(found.assigned, default=None)
    depth = {"spent": {}, "reserved": []} if last is None else found.promoted.get(last) or found.assigned[last]
    reserved = dict.fromkeys(depth.get("reserved", ()), Ceiling(**found.config["ceiling"]))
    ledger = Ledger(Limits(**found.config["budget"]), reserved, spent_of(depth["spent"]))
    return {"spent": total(ledger.spent.values())._asdict(), "left": left(ledger)._asdict()}


def _conversations(found: Found) -> dict[str, str]:
    """Where what was asked and answered is recorded, by target; each call was told all that it had to know."""
    paths = {}
    for slot in found.all_slots():
        paths[f"{slot}.idea"] = found.at.idea(slot, "calls.jsonl")
        paths[f"{slot}.implement"] = found.at.of_eval(slot, "calls.jsonl")
    return {name: path for name, path in paths.items() if os.path.exists(path) and os.path.getsize(path)}
