"""Validate a search: its files, repository, decisions and manifest agree.

Changes nothing.  Order: files, foreign files, repository, decisions made again, then the manifest by itself (nodes and
their evaluations, frontier, stop reason).  A file that differs from its receipt is named once, and its contents are
ignored."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.core.outcome import OUTAGE_WORDS
from pipeline.core.text import join_names, plural
from pipeline.tree.report import storage_checks as storage
from pipeline.tree.report.figures import Manifest, promoted_place
from pipeline.tree.report.manifest import LIFECYCLE_FIELDS, fold_manifest
from pipeline.tree.report.markdown import clip_text, markdown_table, markdown_text
from pipeline.tree.report.replay import replay_decisions
from pipeline.tree.report.run_records import EXPANDED, FRONTIER
from pipeline.tree.report.storage_checks import Check, Problem, Row, check_of, unequal_rows, value_text
from pipeline.tree.rules.assignment import NO_BUDGET
from pipeline.tree.rules.beam import COMPLETED, EMPTY_FRONTIER, MAX_DEPTH, STRICT_FAILURE
from pipeline.tree.rules.budget import BUDGET_STOPS, STOP_REASONS, UNKNOWN_USD
from pipeline.tree.rules.positions import MANIFEST, RunLayout
from pipeline.tree.run.records import Record

REMEDY = "records of different builds are mixed; build again"


def check_consistency(manifest: Manifest) -> list[Check]:
    nodes, evaluations = manifest["nodes"], manifest["evaluations"]
    looked_at = [
        ("nodes and the evaluations they come from", len(nodes), _node_faults),
        ("evaluations and the nodes they start from", len(evaluations), _evaluation_faults),
        ("frontier, expanded nodes and stop reason", 1, _state_faults),
    ]
    return [check_of(name, count, ((*at, REMEDY) for at in faults(manifest))) for name, count, faults in looked_at]


def _node_faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    for name, node in manifest["nodes"].items():
        where, source = f"nodes.{name}", node["artifacts"]["promoted_from_eval_id"]
        evaluation, parent = manifest["evaluations"].get(source), manifest["nodes"].get(node["parent_node_id"])
        if node["depth"] == 0:
            root = manifest["root"]["root_commit"]
            yield from unequal_rows([(f"{where}.commit", node["commit"], root, "the search started from")])
        elif evaluation is None:
            yield f"{where}.artifacts.promoted_from_eval_id", f"names {source}, and there is no such evaluation"
        elif parent is None:
            named = node["parent_node_id"]
            yield f"{where}.parent_node_id", f"names {named}, and there is no such node: the chain is broken"
        else:
            yield from unequal_rows(_child_rows(where, name, node, parent, evaluation))


def _child_rows(where: str, name: str, node: Manifest, parent: Manifest, source: Manifest) -> Iterator[Row]:
    slot, of = source["eval_id"], f"{source['eval_id']}'s is"
    decided = f"evaluations.{slot}.decision.promoted_to_node_id"
    yield decided, promoted_place(source) or None, name, "the node that comes from it is"
    yield f"{where}.parent_node_id", node["parent_node_id"], source["parent_node_id"], of
    yield f"{where}.depth", node["depth"], parent["depth"] + 1, "one more than its parent's is"
    yield f"{where}.commit", node["commit"], source["candidate_commit"], of
    yield f"{where}.tree", node["tree"], source["candidate_tree"], of
    if own := node["baseline_results_csv_sha256"]:
        yield f"{where}.baseline_results_csv_sha256", own, source["candidate_results_csv_sha256"], of
    chain = [*parent["idea_chain"], source["idea_path"]]
    yield f"{where}.idea_chain", node["idea_chain"], chain, "its parent's and its own idea are"
    yield f"{where}: status of {slot}", source["status"], COMPLETED, "of what is promoted it is"
    yield f"{where}: approval of {slot}", source["approved"], True, "of what is promoted it is"


def _evaluation_faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    nodes, folder = manifest["nodes"], f"runs/{manifest['tree_run_id']}/artifacts/"
    for name, each in manifest["evaluations"].items():
        where, parent, to = f"evaluations.{name}", nodes.get(each["parent_node_id"]), promoted_place(each)
        if parent is None and not each["empty"]:
            yield f"{where}.parent_node_id", f"names {each['parent_node_id']}, and there is no such node"
        elif parent and each["parent_commit"]:
            row = (f"{where}.parent_commit", each["parent_commit"], parent["commit"], "the node's is")
            yield from unequal_rows([row])
        if to and (to not in nodes or nodes[to]["artifacts"]["promoted_from_eval_id"] != name):
            yield f"{where}.decision.promoted_to_node_id", f"names {to}, which does not come from it"
        for key in ("candidate_results_csv_path", "baseline_results_csv_path"):
            if each[key] and not each[key].startswith(folder):
                yield f"{where}.{key}", f"{each[key]} is not under {folder}"


def _state_faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    state, nodes = manifest["state"], manifest["nodes"]
    current = state["current_depth"]
    of_depth = {str(d): [name for name, node in nodes.items() if node["depth"] == d] for d in range(current + 1)}
    frontier = of_depth.pop(str(current))
    rows: list[Row] = [
        ("state.completed_depths", state["completed_depths"], [*range(current)], "by current_depth they are"),
        ("state.frontier_node_ids", state["frontier_node_ids"], frontier, "nodes of current_depth are"),
        ("state.expanded_node_ids_by_depth", state["expanded_node_ids_by_depth"], of_depth, "nodes above it are"),
    ]
    for name, node in nodes.items():
        status = EXPANDED if node["depth"] < current else FRONTIER
        rows.append((f"nodes.{name}.status", node["status"], status, "at its depth it is"))
    yield from unequal_rows(rows)
    for depth, places in state["beam_by_depth"].items():
        for place, beam in places.items():
            node, source = nodes.get(place), beam["promoted_from_eval_id"]
            if source and node is None:
                yield f"nodes.{place}", f"is missing, though {source} was promoted to it"
            elif node and node["artifacts"]["promoted_from_eval_id"] != source:
                yield f"state.beam_by_depth.{depth}.{place}", "names another evaluation than the node does"
    yield from _stop_faults(manifest)


def _stop_faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    state, config = manifest["state"], manifest["run_config"]
    stop, current = state["stop_reason"], state["current_depth"]
    where, mistakes = "state.stop_reason", _stop_mistakes(manifest)
    if stop in OUTAGE_WORDS:  # of one build, not of the search
        return
    if stop is None and current >= config["max_depth"]:
        yield where, f"is missing, though all {current} depths are done"
    elif stop is None and current and not state["frontier_node_ids"] and config["stop_on_empty_frontier"]:
        yield where, "is missing, though no node is left to expand"
    elif stop is not None and stop not in mistakes:
        yield where, f"'{stop}' is unknown; there are {', '.join(mistakes)}"
    elif stop is not None and mistakes[stop]:
        yield where, f"is {stop}, but {mistakes[stop]}"


def _stop_mistakes(manifest: Manifest) -> dict[str, str]:
    """Mistakes by reason to stop: why it cannot be the reason; empty where it can."""
    state, config = manifest["state"], manifest["run_config"]
    current, most, left = state["current_depth"], config["max_depth"], state["frontier_node_ids"]
    failed = state["depth_progress_by_depth"].get(str(current - 1), {"failed": 0})["failed"]
    is_strict = failed and config["strict_fail"]
    return {
        MAX_DEPTH: "" if current == most else f"{current} of {most} depths are done",
        EMPTY_FRONTIER: f"there are nodes to expand: {', '.join(left)}" if left else "",
        STRICT_FAILURE: "" if is_strict else f"{failed} evaluations of depth {current - 1} failed",
        **{reason: _limit_mistake(name, manifest) for name, reason in BUDGET_STOPS.items()},
        STOP_REASONS[UNKNOWN_USD]: "" if state["spent"]["unknown_calls"] else "there is no call of unknown price",
    }


def _limit_mistake(name: str, manifest: Manifest) -> str:
    """Empty unless enough is left for one more, and none of the last depth was refused for lack of it."""
    state, config = manifest["state"], manifest["run_config"]
    if config["budget"][name] is None:
        return f"there is no limit of {name}"
    left, last = state["left"][name], state["current_depth"] - 1
    refused = any(e["depth"] == last and e["empty"] == NO_BUDGET for e in manifest["evaluations"].values())
    enough = left > 0 and left >= (config["ceiling"][name] or 0) and not refused
    return f"{left:g} {name} are left" if enough else ""


def check_decisions(run: str, config: Mapping[str, Any], without: Collection[str]) -> Check:
    """Make all decisions again; `without`: paths of missing or changed records, which other checks have named."""
    decisions = replay_decisions(run, storage.planned_targets(run, config))
    faults = [
        (
            f"{path}: {where}",
            f"is {value_text(recorded)}, made again it is {value_text(rebuilt)}",
            f"decide again: coppice forget {each.target}, then coppice {run}",
        )
        for each in decisions
        for path, where, recorded, rebuilt in each.differences
        if path not in without
    ]
    return check_of("scores and decisions, made again from what they were made of", len(decisions), faults)


# Fields of a stored manifest that are from the watcher of the run, or of the moment.
PASSING_FIELDS = {*LIFECYCLE_FIELDS, "events", "tasks", "status", "deferred_cleanup", "money"}
# In place of the checks of consistency, whose faults would only repeat the missing records.
NOT_LOOKED_AT = check_of("whether all fits together: not looked at while records are missing or changed", 0, [])


class Validation(NamedTuple):
    run: str
    checks: tuple[Check, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for each in self.checks for problem in each.problems)


def validate_run(
    run: str, config: Mapping[str, Any], stored: Record | None = None, events: str | None = None
) -> Validation:
    """Validate a run.  Of what no target has: `stored`, the content of manifest.json, is compared with the records;
    `events` is the path of their log."""
    outputs, lacking = storage.recorded_outputs(run, config)
    whole = storage.check_files(run, outputs, lacking)
    unreliable = frozenset(problem.path for problem in whole.problems)
    manifest = fold_manifest(run, config, without=unreliable)
    all_known = not any(path.endswith(".json") for path in unreliable)
    checks = [
        whole,
        storage.check_foreign_files(run, outputs, config),
        *storage.check_repository(manifest, all_known),
        check_decisions(run, config, unreliable),
        *(check_consistency(manifest) if all_known else [NOT_LOOKED_AT]),
    ]
    if events is not None:
        checks.append(storage.check_events(events))
    if stored is not None:
        checks.append(_check_stored(RunLayout(run).of_run(MANIFEST), stored, manifest))
    return Validation(run, tuple(checks))


# Names of fields; entries are named by positions, depths and paths, and below `metrics` by what the spec measures.
_FIELD = re.compile(r"(?:^|(?<!metrics)\.)[a-z_]+$")


def _check_stored(path: str, stored: Record, now: Record) -> Check:
    """Compare manifest.json with the records.  Fields that it lacks are younger than it, which is no problem."""
    lacking, faults = [], []
    for where, old, new in _differences("", stored, now):
        if old is _ABSENT and _FIELD.search(where):
            lacking.append(where.rpartition(".")[2])
        else:
            sides = [clip_text(str(None if side is _ABSENT else side), 60) for side in (old, new)]
            faults.append((path, f"{where} is {sides[0]}, the records say {sides[1]}", "every build writes it anew"))
    check = check_of("manifest.json and the records", 1, faults)
    if not lacking:
        return check
    names = join_names(sorted({*lacking}), _MOST_NAMED)
    return check._replace(note=f"{path} is from an older version and lacks {names}; the next build writes it anew.")


_ABSENT, _MOST_NAMED = object(), 5


def _differences(where: str, stored: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(stored, Mapping) and isinstance(now, Mapping):
        for name in sorted({*stored, *now} - PASSING_FIELDS):
            inner = f"{where}.{name}" if where else name
            yield from _differences(inner, stored.get(name, _ABSENT), now.get(name, _ABSENT))
    elif stored != now and not {id(stored), id(now)} <= {id(_ABSENT), id(None)}:
        yield where, stored, now


def validation_report(validation: Validation) -> str:
    rows = [[each.name, str(each.looked_at), str(len(each.problems))] for each in validation.checks]
    count = len(validation.problems)
    title = f"{plural(count, 'problem')} found" if count else "No problems found"
    lines = [f"# {title}", "", f"Search `{validation.run}`.", ""]
    lines += markdown_table(["check", "looked at", "problems"], rows, right=("looked at", "problems"))
    lines += [line for each in validation.checks if each.note for line in ("", markdown_text(each.note))]
    for each in validation.checks:
        if each.problems:
            lines += ["", f"## {each.name.capitalize()}", "", *(f"- {markdown_text(str(p))}" for p in each.problems)]
    return "\n".join(lines) + "\n"
