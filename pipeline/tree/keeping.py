"""Refs and worktrees as the records want them: what they name is kept, all else is let go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.edge.git.asked import head
from pipeline.edge.git.command import GitProblem
from pipeline.edge.git.refs import pin, pinned, unpin
from pipeline.edge.git.repository import ROOT as ROOT_REF
from pipeline.tree.bench import Bench
from pipeline.tree.layout import CANDIDATES
from pipeline.tree.sealing import REF
from pipeline.tree.slots import ROOT, Place, Slot, parse_place, parse_slot


def keep(run: str, manifest: Mapping[str, Any]) -> None:
    bench = Bench(run)
    wanted = dict(_wanted(manifest))
    found = pinned(bench.repo, run)
    for name in sorted(found.keys() - wanted.keys() - {REF}):
        unpin(bench.repo, run, name)
    for name in sorted(wanted):
        if found.get(name) != wanted[name]:
            pin(bench.repo, run, name, bench.commit(_position(name)))
    _keep_worktrees(bench, manifest)


def _position(ref: str) -> Slot | Place:
    if ref == ROOT_REF:
        return ROOT
    return parse_slot(ref) if ".i" in ref else parse_place(ref)


def _wanted(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield ROOT_REF, manifest["root"]["root_commit"]
    yield from ((name, node["commit"]) for name, node in manifest["nodes"].items())
    candidates = manifest["evaluations"].items()
    yield from ((name, found["candidate_commit"]) for name, found in candidates if found["candidate_commit"])


def _keep_worktrees(bench: Bench, manifest: Mapping[str, Any]) -> None:
    nodes = manifest["nodes"]
    for name in _folders(bench.nodes.folder):
        if name not in nodes:
            bench.nodes.remove(name)
    for name, node in nodes.items():
        if _commit_at(bench, name) != node["commit"]:  # what was recalled has not moved it
            bench.nodes.add(name, node["commit"])
    if not manifest["run_config"]["keep"]["rejected_worktrees"]:
        for name in _folders(bench.at.of_run(CANDIDATES)):
            bench.candidates.remove(name)


def _commit_at(bench: Bench, name: str) -> str:
    try:
        return head(bench.nodes.at(name))
    except GitProblem:
        return ""


def _folders(path: str) -> list[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []
