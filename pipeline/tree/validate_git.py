"""Checks of the run's repository: commits, their trees and parents, the refs that keep them, the worktrees of nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.words import listed
from pipeline.edge.git.asked import Known, changed, head, known
from pipeline.edge.git.command import GitProblem
from pipeline.edge.git.home import home_of
from pipeline.edge.git.refs import pinned
from pipeline.edge.git.worktrees import Worktrees
from pipeline.tree.layout import NODES
from pipeline.tree.problem import Check, Fault, check, unequal
from pipeline.tree.sealing import REF

# Position -> commit, tree, parent as they are recorded.
States = Mapping[str, tuple[str, str, str]]


def states(manifest: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    root = manifest["root"]
    found = {"root": (root["root_commit"], root["root_tree"], "")} if root["root_commit"] else {}
    for name, each in manifest["evaluations"].items():
        if each["candidate_commit"]:
            found[name] = (each["candidate_commit"], each["candidate_tree"], each["parent_commit"])
    for name, node in placed(manifest).items():
        source = found.get(node["artifacts"]["promoted_from_eval_id"] or "root")
        found[name] = (node["commit"], node["tree"], source[2] if source else "")
    return found


def placed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes that have got their place in git; others are only decided on."""
    return {name: node for name, node in manifest["nodes"].items() if node["created_at"]}


def repository(manifest: Mapping[str, Any], all_known: bool) -> list[Check]:
    """`all_known`: no record is missing that might name another commit."""
    run, wanted = manifest["tree_run_id"], states(manifest)
    repo = home_of(run)
    if not wanted:
        none = (f"runs/{run}", "holds no search yet", f"build it: coppice {run}")
        return [check("a search that has begun", 1, [none])]
    if not os.path.isdir(f"{repo}/objects"):
        missing = (f"runs/{run}/repo.git", "is missing", _again(run, "root"))
        return [check("the repository of the run", 1, [missing])]
    try:
        return _looked_into(run, repo, manifest, wanted, all_known)
    except GitProblem as problem:
        damaged = (f"runs/{run}/repo.git", f"is damaged: {problem}", f"remove it, then {_again(run, 'root')}")
        return [check("the repository of the run", 1, [damaged])]


def _looked_into(run: str, repo: str, manifest: Mapping[str, Any], wanted: States, all_known: bool) -> list[Check]:
    there = known(repo, (commit for commit, _, _ in wanted.values()))
    return [
        check("commits, with their trees and parents", len(wanted), _commits(run, wanted, there)),
        check("refs that keep commits", len(wanted), _refs(run, wanted, _pinned(manifest, wanted), all_known)),
        check("worktrees of nodes", len(placed(manifest)), _worktrees(run, repo, placed(manifest))),
    ]


def _pinned(manifest: Mapping[str, Any], wanted: States) -> dict[str, str]:
    """Without those of nodes that were only decided on: they may be kept already."""
    run = manifest["tree_run_id"]
    found = pinned(home_of(run), run)
    return {name: commit for name, commit in found.items() if name in wanted or name not in {REF, *manifest["nodes"]}}


def _again(run: str, name: str) -> str:
    target = name if name == "root" else f"{name}.implement" if ".i" in name else f"{name}.node"
    return f"make it again: coppice forget {run}:{target}, then coppice {run}"


def _commits(run: str, wanted: States, there: Mapping[str, Known]) -> Iterator[Fault]:
    for name, (commit, tree, parent) in wanted.items():
        if commit not in there:
            yield f"runs/{run}/repo.git", f"the commit {commit} of {name} is missing", _again(run, name)
            continue
        found = there[commit]
        where = f"runs/{run}/repo.git: commit {commit} of {name}"
        rows = [(f"{where}: its tree", found.tree, tree, "the record says")]
        rows += [(f"{where}: its parent", found.parent, parent, "the record says")] if parent else []
        yield from unequal(rows, _again(run, name))


def _refs(run: str, wanted: States, found: Mapping[str, str], all_known: bool) -> Iterator[Fault]:
    for name, (commit, _, _) in wanted.items():
        where = f"refs/coppice/{run}/{name}"
        if name not in found:
            yield where, f"is missing: git may drop commit {commit[:12]}", _again(run, name)
        elif found[name] != commit:
            yield where, f"is at {found[name][:12]}, the record says {commit[:12]}", _again(run, name)
    for name in sorted(found.keys() - wanted.keys() if all_known else ()):
        yield f"refs/coppice/{run}/{name}", "keeps a commit that no record names", f"build again: coppice {run}"


def _worktrees(run: str, repo: str, nodes: Mapping[str, Any]) -> Iterator[Fault]:
    there = Worktrees(repo, f"runs/{run}/{NODES}")
    for name, node in nodes.items():
        path, again = node["worktree_path"], _again(run, name)
        try:
            worktree = there.at(name)
        except GitProblem:
            yield path, "is no worktree of the run's repository: it was removed, or never added", again
            continue
        if head(worktree) != node["commit"]:
            yield path, f"is at {head(worktree)[:12]}, the record says {node['commit'][:12]}", again
            continue
        try:
            files = changed(worktree)
        except GitProblem as problem:
            yield path, f"cannot be looked into: {problem}", again
            continue
        if files:
            yield path, f"was changed: {listed(files)}", f"keep what you want of it elsewhere, then {again}"
