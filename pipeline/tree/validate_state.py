"""Checks of a manifest by itself: does all that is said of nodes, evaluations and the state fit together?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.tree.beam import EMPTY_FRONTIER, MAX_DEPTH, STRICT_FAILURE
from pipeline.tree.budget import REACHED
from pipeline.tree.gate import COMPLETED
from pipeline.tree.ideas import BUDGET
from pipeline.tree.manifest_nodes import EXPANDED, FRONTIER
from pipeline.tree.problem import Check, Fault, check, unequal

Manifest = Mapping[str, Any]
REMEDY = "records of different builds are mixed; build again"


def consistency(manifest: Manifest) -> list[Check]:
    nodes, evaluations = manifest["nodes"], manifest["evaluations"]
    return [
        check("nodes and the evaluations they come from", len(nodes), _nodes(manifest)),
        check("evaluations and the nodes they start from", len(evaluations), _evaluations(manifest)),
        check("frontier, expanded nodes and stop reason", 1, _state(manifest)),
    ]


def _nodes(manifest: Manifest) -> Iterator[Fault]:
    for name, node in manifest["nodes"].items():
        where, source = f"nodes.{name}", node["artifacts"]["promoted_from_eval_id"]
        evaluation, parent = manifest["evaluations"].get(source), manifest["nodes"].get(node["parent_node_id"])
        if node["depth"] == 0:
            root = manifest["root"]["root_commit"]
            yield from unequal([(f"{where}.commit", node["commit"], root, "the search started from")], REMEDY)
        elif evaluation is None:
            yield f"{where}.artifacts.promoted_from_eval_id", f"names {source}, and there is no such evaluation", REMEDY
        elif parent is None:
            named = node["parent_node_id"]
            yield f"{where}.parent_node_id", f"names {named}, and there is no such node: the chain is broken", REMEDY
        else:
            yield from unequal(_child(where, name, node, parent, evaluation), REMEDY)


def _child(
    where: str, name: str, node: Manifest, parent: Manifest, source: Manifest
) -> Iterator[tuple[str, object, object, str]]:
    of, chain = f"{source['eval_id']}'s is", [*parent["idea_chain"], source["idea_path"]]
    to = (source["decision"] or {}).get("promoted_to_node_id")
    yield f"evaluations.{source['eval_id']}.decision.promoted_to_node_id", to, name, "the node that comes from it is"
    yield f"{where}.parent_node_id", node["parent_node_id"], source["parent_node_id"], of
    yield f"{where}.depth", node["depth"], parent["depth"] + 1, "one more than its parent's is"
    yield f"{where}.commit", node["commit"], source["candidate_commit"], of
    yield f"{where}.tree", node["tree"], source["candidate_tree"], of
    own, csv = node["baseline_results_csv_sha256"], source["candidate_results_csv_sha256"]
    yield from ((f"{where}.baseline_results_csv_sha256", own, csv, of),) if own else ()
    yield f"{where}.idea_chain", node["idea_chain"], chain, "its parent's and its own idea are"
    yield f"{where}: status of {source['eval_id']}", source["status"], COMPLETED, "of what is promoted it is"
    yield f"{where}: approval of {source['eval_id']}", source["approved"], True, "of what is promoted it is"


def _evaluations(manifest: Manifest) -> Iterator[Fault]:
    nodes, folder = manifest["nodes"], f"runs/{manifest['tree_run_id']}/artifacts/"
    for name, each in manifest["evaluations"].items():
        where, parent = f"evaluations.{name}", nodes.get(each["parent_node_id"])
        to = (each["decision"] or {}).get("promoted_to_node_id")
        if parent is None and not each["empty"]:
            yield f"{where}.parent_node_id", f"names {each['parent_node_id']}, and there is no such node", REMEDY
        elif parent and each["parent_commit"]:
            rows = [(f"{where}.parent_commit", each["parent_commit"], parent["commit"], "the node's is")]
            yield from unequal(rows, REMEDY)
        if to and nodes.get(to, {"artifacts": {}})["artifacts"].get("promoted_from_eval_id") != name:
            yield f"{where}.decision.promoted_to_node_id", f"names {to}, which does not come from it", REMEDY
        for key in ("candidate_results_csv_path", "baseline_results_csv_path"):
            if each[key] and not each[key].startswith(folder):
                yield f"{where}.{key}", f"{each[key]} is not under {folder}", REMEDY


def _state(manifest: Manifest) -> Iterator[Fault]:
    state, nodes = manifest["state"], manifest["nodes"]
    current = state["current_depth"]
    of_depth = {str(d): [name for name, node in nodes.items() if node["depth"] == d] for d in range(current + 1)}
    expanded = {str(d): of_depth[str(d)] for d in range(current)}
    rows: list[tuple[str, object, object, str]] = [
        ("state.completed_depths", state["completed_depths"], [*range(current)], "by current_depth they are"),
        ("state.frontier_node_ids", state["frontier_node_ids"], of_depth[str(current)], "nodes of current_depth are"),
        ("state.expanded_node_ids_by_depth", state["expanded_node_ids_by_depth"], expanded, "nodes above it are"),
    ]
    for name, node in nodes.items():
        status = EXPANDED if node["depth"] < current else FRONTIER
        rows.append((f"nodes.{name}.status", node["status"], status, "at its depth it is"))
    yield from unequal(rows, REMEDY)
    yield from _beam(manifest)
    yield from _stop(manifest)


def _beam(manifest: Manifest) -> Iterator[Fault]:
    """The beam as it was decided, and the nodes that are there."""
    for depth, places in manifest["state"]["beam_by_depth"].items():
        for place, found in places.items():
            node, source = manifest["nodes"].get(place), found["promoted_from_eval_id"]
            if source and node is None:
                yield f"nodes.{place}", f"is missing, though {source} was promoted to it", REMEDY
            elif node and node["artifacts"]["promoted_from_eval_id"] != source:
                yield f"state.beam_by_depth.{depth}.{place}", "names another evaluation than the node does", REMEDY


def _stop(manifest: Manifest) -> Iterator[Fault]:
    state, config = manifest["state"], manifest["run_config"]
    stop, current = state["stop_reason"], state["current_depth"]
    where = "state.stop_reason"
    if stop is None and current >= config["max_depth"]:
        yield where, f"is missing, though all {current} depths are done", REMEDY
    elif stop is None and current and not state["frontier_node_ids"] and config["stop_on_empty_frontier"]:
        yield where, "is missing, though no node is left to expand", REMEDY
    elif stop is not None and stop not in STOPS:
        yield where, f"'{stop}' is unknown; there are {', '.join(STOPS)}", REMEDY
    elif stop is not None and (why := STOPS[stop](manifest)):
        yield where, f"is {stop}, but {why}", REMEDY


def _max_depth(manifest: Manifest) -> str:
    current, most = manifest["state"]["current_depth"], manifest["run_config"]["max_depth"]
    return "" if current == most else f"{current} of {most} depths are done"


def _empty(manifest: Manifest) -> str:
    left = manifest["state"]["frontier_node_ids"]
    return f"there are nodes to expand: {', '.join(left)}" if left else ""


def _strict(manifest: Manifest) -> str:
    last = str(manifest["state"]["current_depth"] - 1)
    failed = manifest["state"]["depth_progress_by_depth"].get(last, {"failed": 0})["failed"]
    return "" if failed and manifest["run_config"]["strict_fail"] else f"{failed} evaluations of depth {last} failed"


def _limit(name: str) -> Callable[[Manifest], str]:
    return lambda manifest: (
        f"there is no limit of {name}" if manifest["run_config"]["budget"][name] is None else _enough(manifest, name)
    )


def _enough(manifest: Manifest, name: str) -> str:
    """Enough is left for one more, and none of the last depth was refused for lack of it."""
    left, each = manifest["state"]["left"][name], manifest["run_config"]["ceiling"][name] or 0
    last = manifest["state"]["current_depth"] - 1
    refused = any(e["depth"] == last and e["empty"] == BUDGET for e in manifest["evaluations"].values())
    return f"{left:g} {name} are left" if left > 0 and left >= each and not refused else ""


STOPS: dict[str, Callable[[Manifest], str]] = {
    MAX_DEPTH: _max_depth,
    EMPTY_FRONTIER: _empty,
    STRICT_FAILURE: _strict,
    **{reason: _limit(name) for name, reason in REACHED.items()},
}
