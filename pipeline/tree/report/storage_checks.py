"""Checks of stored files: every file as its target wrote it, no foreign files, and the run's git repository.

A fault says where, what, and what to do about it.  Checked in git: commits with trees and parents, the refs that keep
them, the worktrees of nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.core.text import join_names, one_line
from pipeline.git.command import GitProblem
from pipeline.git.commits import CommitFacts, commit_facts, worktree_changes, worktree_head
from pipeline.git.objects import pinned_commits
from pipeline.git.repository import run_repository
from pipeline.git.worktrees import Worktrees
from pipeline.store.files import file_sha256, open_plain, whole_lines
from pipeline.store.receipts import Receipts
from pipeline.tree.rules.positions import EVENTS, FIRST_PART, MANIFEST, NODES, OWN_FILES, REST_PART, SUMMARY, RunLayout
from pipeline.tree.rules.scoring import PAIRED
from pipeline.tree.run.records import event_of, read_events
from pipeline.tree.run.seal import HOLDOUT_REF
from pipeline.tree.spec.model import MANUAL, PATCHES, PER_CONFIG, shape_of, waves_of


class Problem(NamedTuple):
    """A fault found by a check; `path`: a file, a folder, a ref, or a field of the manifest."""

    path: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; {self.remedy}"


class Check(NamedTuple):
    """A check: its name, how many things it looked at, the problems found; `note`: what is none."""

    name: str
    looked_at: int
    problems: tuple[Problem, ...]
    note: str = ""


# A path or field, what is wrong with it, what to do.
Fault = tuple[str, str, str]


def check_of(name: str, looked_at: int, faults: Iterable[Fault]) -> Check:
    return Check(name, looked_at, tuple(Problem(*fault) for fault in faults))


def check_events(path: str) -> Check:
    """Check that each line of the log of events is one: what is none counts nowhere."""
    lines: list[bytes] = []
    if os.path.exists(path):
        with open_plain(path) as file:
            lines += whole_lines(file)
    numbers = [number for number, line in enumerate(lines, 1) if not event_of(line)]
    what, remedy = "is no event with `at` and `event`, and passed over", "remove the line"
    return check_of("lines of the log of events", len(lines), ((f"{path}:{n}", what, remedy) for n in numbers))


# Where, what is found, what is expected, words for the expected one.
Row = tuple[str, object, object, str]


def unequal_rows(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    """Faults of the rows that differ, without a remedy."""
    for where, found, expected, what in rows:
        if found != expected:
            yield where, f"is {value_text(found)}, {what} {value_text(expected)}"


def value_text(value: object) -> str:
    return "missing" if value is None else one_line(str(value), 80)


_IDEA = re.compile(r"/(d[0-9]+\.n[0-9]+)/idea_([0-9]+)")
_DEPTH = re.compile(r"/depths/([0-9]+)")
_NUMBERED = "|".join(f"(?<=/{name})[0-9]+" for name in ("depths/", "idea_", "review_round_", "rows/"))
_POSITION = re.compile(rf"\bd[0-9]+\.n[0-9]+(\.i[0-9]+)?|{_NUMBERED}")


# Forms of files that a target of this spec may have written by an earlier one: by turns, with a reviewer, with a model.
_EARLIER = ("eval/*/proposed.json", "eval/*/review_round_*.md", "node_ideas/*/idea_*.calls.jsonl")


def expected_targets(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of all targets of a search, by the later target that needs all of them (a test holds it against the plan).

    It is derived from the configuration: a list recorded with the plan would be part of the recipe of `validate`."""
    shape = shape_of(config)
    recorded, paired = config["backends"]["ideas"] == PATCHES, config["method"] == PAIRED
    before = {"test": config["tests"], "checks": config["checks"] or config["protect"]}
    swept = [*(f"d0.n0.{step}" for step, there in before.items() if there), *_root_sweep_names(config)]
    swept += ["protected"] if config["protect"] else []
    found = {"d0.assign": ["root", *swept, "d0.n0.node", *(["ideas"] if recorded else [])]}
    by_hand, cascade = config["backends"]["coder"] == MANUAL, config["cascade"]
    each = {"idea": not recorded, "change": by_hand, "implement": True, "pairs": paired, **before}
    each |= {"early": cascade, "score": True}
    wave, ahead = waves_of(config)
    each |= {"admit": wave, "ahead": ahead}
    of_depth = {"assign": True, "cascade": cascade, "weigh": paired, "promote": True}
    for depth in shape.depths:
        names = [f"d{depth}.{step}" for step, there in of_depth.items() if there]
        for slot in shape.slots(depth):
            names += [f"{slot}.{step}" for step, there in each.items() if there]
            names += _sweep_names(str(slot), config)
        waves = range(0, len(shape.slots(depth)), wave) if ahead else ()
        names += [f"d{depth}.wave.{n // wave}" for n in waves]
        found[f"d{depth}.promote"] = names
        # nodes are made afterwards: whoever goes a depth at a time may not have them yet
        found[f"d{depth + 1}.assign"] = [f"{place}.node" for place in shape.places(depth + 1)]
    return found | {"validate": ["report"]}


def planned_targets(run: str, config: Mapping[str, Any]) -> set[str]:
    """Names of the targets that make the records of a search of this configuration."""
    return {f"{run}:{name}" for names in expected_targets(config).values() for name in names}


def _root_sweep_names(config: Mapping[str, Any]) -> Iterable[str]:
    return ["d0.n0.sweep"] if config.get("baseline_csv") else _sweep_names("d0.n0", config)


def _sweep_names(where: str, config: Mapping[str, Any]) -> Iterator[str]:
    parts = [f"{where}.{FIRST_PART}", f"{where}.{REST_PART}"] if config["cascade"] else []
    yield from (f"{where}.sweep", *parts)
    if config["sweep_mode"] == PER_CONFIG and not config["dry_run"]:
        count = min(config["sweep_config_limit"] or config["grid"], config["grid"])
        yield from (f"{part}.row.{n}" for part in parts or [where] for n in config.get("config_ids", range(count)))


def recorded_outputs(run: str, config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The sha256 of every file by the receipts, and the targets without a receipt that later ones needed."""
    receipts = Receipts(run)
    built = {*receipts.names()}
    outputs: dict[str, str] = {}
    lacking: list[str] = []
    for last, names in expected_targets(config).items():
        for name in names:
            receipt = receipts.receipt(f"{run}:{name}")
            outputs |= receipt.outputs if receipt else {}
            lacking += [name] if receipt is None and f"{run}:{last}" in built else []
    return outputs, lacking


def check_files(run: str, outputs: Mapping[str, str], lacking: list[str]) -> Check:
    again = f"build again: coppice {run}"
    faults = [(f"{run}:{name}", "was not built, what comes after it was", again) for name in lacking]
    for path, sha in outputs.items():
        sha_now = file_sha256(path) if os.path.isfile(path) else None
        if sha_now is None:
            faults.append((path, "is missing", again))
        elif sha_now != sha:
            what = f"was changed since it was written: sha256 {sha_now[:12]}…, recorded {sha[:12]}…"
            faults.append((path, what, again))
    return check_of("files as their targets wrote them (sha256)", len(outputs) + len(lacking), faults)


def check_foreign_files(run: str, outputs: Collection[str], config: Mapping[str, Any]) -> Check:
    """Check for files of others.  Those that only an earlier spec wanted are its own: it may want them again."""
    top, receipts = f"runs/{run}", Receipts(run)
    left = (receipts.receipt(name) for name in {*receipts.names()} - planned_targets(run, config))
    outputs = {*outputs, *(path for receipt in left if receipt for path in receipt.outputs)}
    # worktrees of nodes have folders, also those of empty places
    folders = {f"{top}/{NODES}", *(f"{top}/{NODES}/{place}" for place in shape_of(config).all_places())}
    for path in outputs:
        while (path := os.path.dirname(path)) and path != top:
            folders.add(path)
    forms = {*map(_form, outputs), *map(_form, folders), *(f"{top}/{form}" for form in _EARLIER)}
    events = read_events(RunLayout(run).of_run(EVENTS))
    positions = {event[name] for event in events for name in ("eval_id", "node_id") if event.get(name)}
    found = [
        (path, "is no file of this search", "move it away, or remove it")
        for path in _foreign_paths(top, top, outputs, folders)
        if not (_form(path) in forms and _has_position_in(path, positions))
    ]
    return check_of("files that belong to the search, and no others", len(outputs), found)


def _has_position_in(path: str, positions: Collection[str]) -> bool:
    if idea := _IDEA.search(path):
        return f"{idea[1]}.i{int(idea[2])}" in positions
    if depth := _DEPTH.search(path):
        return any(position.startswith(f"d{depth[1]}.") for position in positions)
    return any(position[0] in positions for position in _POSITION.finditer(path))


def _form(path: str) -> str:
    """A path without its positions."""
    return _POSITION.sub("*", path)


def _foreign_paths(folder: str, top: str, known: Collection[str], folders: set[str]) -> Iterator[str]:
    """Foreign files; a folder that is foreign as a whole is named once."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    # the folders of a command's own outputs, which may hold anything
    holds_outputs = folder in folders and os.path.dirname(folder) in (f"{top}/eval", f"{top}/nodes")
    for entry in found:
        path, name = f"{folder}/{entry.name}", entry.name
        if folder == top and name in OWN_FILES:
            continue
        if not entry.is_dir(follow_symlinks=False):
            # a build may be about to put a new one in place, or was killed there
            is_draft = folder == top and name.startswith((f"{MANIFEST}.", f"{SUMMARY}.")) and name.endswith(".draft")
            yield from () if path in known or is_draft else (path,)
        elif path in folders:
            yield from () if folder == f"{top}/{NODES}" else _foreign_paths(path, top, known, folders)
        elif not (holds_outputs and (name == "out" or name.startswith("out."))):
            yield path


# By position: commit, tree and parent as they are recorded.
States = Mapping[str, tuple[str, str, str]]


def recorded_states(manifest: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    root = manifest["root"]
    found = {"root": (root["root_commit"], root["root_tree"], "")} if root["root_commit"] else {}
    for name, each in manifest["evaluations"].items():
        if each["candidate_commit"]:
            found[name] = (each["candidate_commit"], each["candidate_tree"], each["parent_commit"])
    for name, node in placed_nodes(manifest).items():
        source = found.get(node["artifacts"]["promoted_from_eval_id"] or "root")
        found[name] = (node["commit"], node["tree"], source[2] if source else "")
    return found


def placed_nodes(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes that are in git; others are only decided."""
    return {name: node for name, node in manifest["nodes"].items() if node["created_at"]}


def check_repository(manifest: Mapping[str, Any], all_known: bool) -> list[Check]:
    """Check the run's repository; `all_known`: no record is missing that might name another commit."""
    run, wanted, nodes = manifest["tree_run_id"], recorded_states(manifest), placed_nodes(manifest)
    where, repo, again = f"runs/{run}/repo.git", run_repository(run), _remedy(run, "root")
    if not wanted:
        none = (f"runs/{run}", "holds no search yet", f"build it: coppice {run}")
        return [check_of("a search that has begun", 1, [none])]
    if not os.path.isdir(f"{repo}/objects"):
        return [check_of("the repository of the run", 1, [(where, "is missing", again)])]
    try:
        there, pins = commit_facts(repo, (commit for commit, _, _ in wanted.values())), pinned_commits(repo, run)
        # nodes that are only decided may be pinned already
        unplaced = {HOLDOUT_REF, *manifest["nodes"]} - wanted.keys()
        pins = {name: commit for name, commit in pins.items() if name not in unplaced}
        return [
            check_of("commits, with their trees and parents", len(wanted), _commit_faults(run, wanted, there)),
            check_of("refs that keep commits", len(wanted), _ref_faults(run, wanted, pins, all_known)),
            check_of("worktrees of nodes", len(nodes), _worktree_faults(run, repo, nodes)),
        ]
    except GitProblem as problem:
        damaged = (where, f"is damaged: {problem}", f"remove it, then {again}")
        return [check_of("the repository of the run", 1, [damaged])]


def _remedy(run: str, name: str) -> str:
    target = name if name == "root" else f"{name}.implement" if ".i" in name else f"{name}.node"
    return f"make it again: coppice forget {run}:{target}, then coppice {run}"


def _commit_faults(run: str, wanted: States, there: Mapping[str, CommitFacts]) -> Iterator[Fault]:
    for name, (commit, tree, parent) in wanted.items():
        if commit not in there:
            yield f"runs/{run}/repo.git", f"the commit {commit} of {name} is missing", _remedy(run, name)
            continue
        where = f"runs/{run}/repo.git: commit {commit} of {name}"
        rows = [(f"{where}: its tree", there[commit].tree, tree, "the record says")]
        rows += [(f"{where}: its parent", there[commit].parent, parent, "the record says")] if parent else []
        yield from ((*fault, _remedy(run, name)) for fault in unequal_rows(rows))


def _ref_faults(run: str, wanted: States, pins: Mapping[str, str], all_known: bool) -> Iterator[Fault]:
    for name, (commit, _, _) in wanted.items():
        where, pinned = f"refs/coppice/{run}/{name}", pins.get(name)
        if pinned is None:
            yield where, f"is missing: git may drop commit {commit[:12]}", _remedy(run, name)
        elif pinned != commit:
            yield where, f"is at {pinned[:12]}, the record says {commit[:12]}", _remedy(run, name)
    for name in sorted(pins.keys() - wanted.keys() if all_known else ()):
        yield f"refs/coppice/{run}/{name}", "keeps a commit that no record names", f"build again: coppice {run}"


def _worktree_faults(run: str, repo: str, nodes: Mapping[str, Any]) -> Iterator[Fault]:
    there = Worktrees(repo, f"runs/{run}/{NODES}")
    for name, node in nodes.items():
        path, again = node["worktree_path"], _remedy(run, name)
        try:
            worktree = there.require(name)
        except GitProblem:
            yield path, "is no worktree of the run's repository: it was removed, or never added", again
            continue
        if worktree_head(worktree) != node["commit"]:
            yield path, f"is at {worktree_head(worktree)[:12]}, the record says {node['commit'][:12]}", again
            continue
        try:
            files = worktree_changes(worktree)
        except GitProblem as problem:
            yield path, f"cannot be looked into: {problem}", again
            continue
        if files:
            yield path, f"was changed: {join_names(files)}", f"keep what you want of it elsewhere, then {again}"
