"""What the manifest says of a node: where it comes from, what it is compared with, which ideas were known there."""

from __future__ import annotations

from datetime import UTC, datetime
from math import fsum

from pipeline.edge.receipts import Receipts
from pipeline.tree.found import Found
from pipeline.tree.layout import NODES
from pipeline.tree.records import Record
from pipeline.tree.slots import ROOT, Place, parse_place, parse_slot

EXPANDED, FRONTIER = "expanded", "frontier"


def node(found: Found, place: Place, receipts: Receipts) -> Record | None:
    """None where no node is: the place is empty, or nothing is known of it yet."""
    origin, code = (found.record(found.at.of_node(place, f"{name}.json")) for name in ("origin", "code"))
    if origin is None or code is None or origin["empty"]:
        return None
    return {
        "parent_node_id": origin["parent_node"],
        "depth": place.depth,
        "status": EXPANDED if place.depth in found.promoted else FRONTIER,
        "closed": origin["closed"],
        "created_at": created_at(receipts, f"{found.run}:{place}.node"),
        "commit": code["commit"],
        "tree": code["tree"],
        "ref": f"refs/coppice/{found.run}/{place}",
        "worktree_path": found.at.of_run(f"{NODES}/{place}"),
        "baseline_results_csv_path": found.at.csv(place),
        "baseline_results_csv_sha256": found.sha(found.at.csv(place)),
        "metrics": means(found, place),
        "sweep_config_limit": found.config["sweep_config_limit"],
        "idea_chain": idea_chain(found, origin),
        **_ideas(found, place, origin),
        "dedupe": {"scope": found.config["dedupe_scope"], "skipped": _skipped(found, place)},
        "artifacts": _artifacts(found, origin["from_eval"]),
    }


def means(found: Found, place: Place) -> dict[str, float]:
    """Of its rows, which are complete: other code never becomes a node."""
    checked = found.baseline(place)
    rows = checked.rows if checked and not checked.defects else ()
    names = [metric["name"] for metric in found.config["metrics"]] if rows else []
    return {name: fsum(row.metrics[name] for row in rows) / len(rows) for name in names}


def idea_chain(found: Found, origin: Record) -> list[str]:
    """Followed upwards, not taken from the record: that may have been made in another run."""
    chain: list[str] = []
    above: Record | None = origin
    while above and above["from_eval"]:
        slot = parse_slot(above["from_eval"])
        chain.append(found.at.idea(slot, "md"))
        above = found.record(found.at.of_node(slot.place, "origin.json"))
    return chain[::-1]


def _ideas(found: Found, place: Place, origin: Record) -> Record:
    above = [parse_place(name) for name in origin["ancestors"]]
    return {
        "node_ideas_dir": _folder(found, place),
        "generated_idea_files": found.ideas(place),
        "context_ideas_dirs": [_folder(found, each) for each in (*above, place)],
        "context_idea_files": {path: found.sha(path) for each in above for path in found.ideas(each)},
    }


def _folder(found: Found, place: Place) -> str:
    return found.at.of_run(f"node_ideas/{place}")


def _skipped(found: Found, place: Place) -> list[Record]:
    tasks = found.assigned.get(place.depth, {"tasks": {}})["tasks"]
    return [
        {"eval_id": slot, "duplicate_of": task["duplicate_of"], "identity": task["identity"]}
        for slot, task in tasks.items()
        if task["duplicate_of"] and parse_slot(slot).place == place
    ]


def _artifacts(found: Found, source: str | None) -> Record:
    """What the node was made from; the root from its baseline alone."""
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
