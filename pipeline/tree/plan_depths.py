"""Targets that begin and end a depth, and those that tell of it all."""

from __future__ import annotations

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft, Paths
from pipeline.tree.layout import SUMMARY, VALIDATION
from pipeline.tree.slots import ROOT, Place


def root(draft: Draft) -> Target:
    """Of a repository it is the commit of the day on which the run began: another run begins on another day."""
    repo = draft.spec.repo
    writes = {"root": draft.at.of_run("root.json"), "tree": draft.at.of_node(ROOT, "tree.txt")}
    reads: dict[str, Paths] = {"repo": repo} if draft.spec.plain else {}
    params = {"repo": repo} if draft.spec.plain else {"repo": repo, "run": draft.spec.name}
    return draft.target("root", "root", reads, writes, params)


def start(draft: Draft) -> Target:
    """The node at the root: nothing is paid for before its baseline is complete."""
    at = draft.at
    reads = {"root": at.of_run("root.json"), "csv": at.csv(ROOT)}
    writes = {name: at.of_node(ROOT, f"{name}.json") for name in ("code", "context", "origin", "node")}
    params = {**draft.complete(), **draft.money()}
    return draft.target("d0.n0.node", "start", reads, writes, params)


def node(draft: Draft, place: Place) -> Target:
    reads = {"code": draft.at.of_node(place, "code.json")}
    return draft.target(f"{place}.node", "node", reads, {"node": draft.at.of_node(place, "node.json")}, {})


def weigh(draft: Draft, depth: int) -> Target:
    """All ideas of a depth at once: how much luck the best of them may have had depends on how many there are."""
    at = draft.at
    reads: dict[str, Paths] = {
        "pairs": [at.of_eval(slot, "pairs.json") for slot in draft.slots(depth)],
        "before": [at.of_depth(depth - 1, "weighed.json")] if depth else [],
    }
    params = {**draft.weighing(), "depth": depth, "slots": [str(slot) for slot in draft.slots(depth)]}
    params["beam_width"] = draft.spec.shape.beam_width  # what a depth that filled it need not spend goes to the next
    return draft.target(f"d{depth}.weigh", "weigh", reads, {"weighed": at.of_depth(depth, "weighed.json")}, params)


def promote(draft: Draft, depth: int) -> Target:
    at, shape, slots = draft.at, draft.spec.shape, draft.slots(depth)
    beside = ("task.json", "candidate.json", "change.patch", "calls.jsonl", "sweep.cost.json", "summary.json")
    reads: dict[str, Paths] = {"assigned": at.of_depth(depth, "assigned.json")}
    reads |= {name.partition(".")[0]: [at.of_eval(slot, name) for slot in slots] for name in beside}
    reads["test"] = [at.of_eval(slot, "test.cost.json") for slot in slots] if draft.tests else []
    reads["checks"] = [at.of_eval(slot, "checks.cost.json") for slot in slots] if draft.checking else []
    reads["csv"] = [at.csv(slot) for slot in slots]
    for name in ("code", "context", "origin"):
        reads[f"node_{name}"] = [at.of_node(place, f"{name}.json") for place in draft.places(depth)]
    after = draft.places(depth + 1)
    writes: dict[str, Paths] = {"promoted": at.of_depth(depth, "promoted.json")}
    writes |= {name: [at.of_node(place, f"{name}.json") for place in after] for name in ("code", "context", "origin")}
    writes["csv"] = [at.csv(place) for place in after]
    params = {**shape._asdict(), **draft.money(), "depth": depth}
    return draft.target(f"d{depth}.promote", "promote", reads, writes, params)


def report(draft: Draft) -> Target:
    reads: dict[str, Paths] = {"promoted": [draft.at.of_depth(depth, "promoted.json") for depth in draft.depths]}
    places = [place for depth in range(draft.depths.stop + 1) for place in draft.places(depth)]
    reads["nodes"] = [draft.at.of_node(place, "node.json") for place in places]
    return draft.target("report", "report", reads, {"summary": draft.at.of_run(SUMMARY)}, draft.told())


def validate(draft: Draft) -> Target:
    reads = {"summary": draft.at.of_run(SUMMARY)}
    return draft.target("validate", "validate", reads, {"report": draft.at.of_run(VALIDATION)}, draft.told())
