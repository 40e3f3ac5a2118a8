"""Git repository of a run: missing commits made again from their patches, clean checkouts of candidates,
refs and worktrees as the manifest has them.

Records recalled from the store name commits that may not be here yet.  A node's record has the chain of patches from
the root on, so that all of them can be restored."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipeline.core.graph import Target
from pipeline.git.command import GitProblem
from pipeline.git.commits import Candidate, restore_commit, worktree_head
from pipeline.git.objects import has_commit, pin, pinned_commits, unpin
from pipeline.git.repository import ROOT as ROOT_REF
from pipeline.git.repository import prepare_repository, reopen_repository, restore_setup, run_repository
from pipeline.git.worktrees import Worktree, Worktrees, lending_folder
from pipeline.store.files import read_bytes
from pipeline.tree.rules.positions import (
    BY_HAND,
    CANDIDATES,
    NODES,
    ROOT,
    EvalSlot,
    NodePlace,
    RunLayout,
    parse_position,
    position,
)
from pipeline.tree.run.records import Record, from_json, load, load_as
from pipeline.tree.run.seal import HOLDOUT_REF

# Opens the repository of a run for a node's code, whose commit is then there.
OpenNode = Callable[[str, Mapping[str, Any]], str]


def open_as_is(run: str, code: Mapping[str, Any]) -> str:
    """The run's repository, for replays: nothing is made again, nothing is written."""
    path, commit = run_repository(run), code["commit"]
    if not os.path.isdir(f"{path}/objects"):
        raise GitProblem(f"runs/{run}/repo.git is missing")
    if not has_commit(path, commit):
        raise GitProblem(f"runs/{run}/repo.git has no commit {commit}")
    return path


def open_restored(run: str, code: Mapping[str, Any]) -> str:
    """The run's repository; all of the code may have been recalled from another run, and its commits not be here."""
    repo = RunRepo(run)
    repo.chain(code)
    return repo.path


class RunRepo:
    """The repository in which candidates of one run are made and measured."""

    def __init__(self, run: str) -> None:
        self.at = RunLayout(run)
        root = load(self.at.of_run("root.json"))
        self.path = reopen_repository(root["repo"], run, root["commit"])
        self.nodes, self.by_hand = (Worktrees(self.path, self.at.of_run(name)) for name in (NODES, BY_HAND))
        self.candidates = Worktrees(self.path, self.at.of_run(CANDIDATES), root["tree"])

    def chain(self, code: Mapping[str, Any]) -> str:
        """The commit of a node, with all commits before it made again if they are missing."""
        links = code["chain"]
        if links and not has_commit(self.path, links[-1]["commit"]):
            for link in links:
                self.restore(from_json(Candidate, link), base64.b64decode(link["patch"]))
        return str(code["commit"])

    def restore(self, candidate: Candidate, patch: bytes) -> None:
        if not has_commit(self.path, candidate.commit):
            restore_commit(self.path, candidate.parent, patch, candidate)

    def commit(self, where: EvalSlot | NodePlace) -> str:
        """The commit at a position, by records that are no inputs of the stage: they only say where it is."""
        if where == ROOT:
            return str(load(self.at.of_run("root.json"))["commit"])
        if isinstance(where, NodePlace):
            return self.chain(load(self.at.of_node(where, "code.json")))
        candidate = load_as(Candidate, self.at.of_eval(where, "candidate.json"))
        if not has_commit(self.path, candidate.commit):
            self.chain(load(self.at.of_node(where.place, "code.json")))
            self.restore(candidate, read_bytes(self.at.of_eval(where, "change.patch")))
        return candidate.commit

    @contextmanager
    def checkout(self, name: str, commit: str, keep: bool = False) -> Iterator[Worktree]:
        """A clean checkout, removed afterwards; the remains of a kill are cleaned by the next checkout."""
        restore_setup(self.path)
        try:
            yield self.candidates.add(name, commit)
        finally:
            if keep:
                self.candidates.release(name)
            else:
                self.candidates.remove(name)


def code_records(target: Target) -> list[str]:
    """The records that say where the code of a target is."""
    at, where = RunLayout(target.run), position(target.name)
    node = where if isinstance(where, NodePlace) else where.place
    found = [at.of_run("root.json"), *([] if node == ROOT else [at.of_node(node, "code.json")])]
    own = ("candidate.json", "change.patch") if isinstance(where, EvalSlot) else ()
    return [*found, *(at.of_eval(where, name) for name in own if isinstance(where, EvalSlot))]


def settle_code(target: Target, project: str) -> None:
    """Make a repository of the run here, which borrows from that of the project."""
    repo = prepare_repository(target.run, f"{project}/runs/{target.run}/repo.git/objects")
    pin(repo, target.run, ROOT_REF, load(RunLayout(target.run).of_run("root.json"))["commit"])


def lender_of(run: str) -> str:
    """The folder that repositories of a run's candidates borrow from."""
    return lending_folder(run_repository(run), load(RunLayout(run).of_run("root.json"))["tree"])


def chain_link(candidate: Candidate, patch: bytes) -> Record:
    return candidate._asdict() | {"patch": base64.b64encode(patch).decode()}


def keep_git_state(run: str, manifest: Mapping[str, Any]) -> None:
    """Make the refs and worktrees of a run those of its manifest."""
    repo, nodes, evaluations = RunRepo(run), manifest["nodes"], manifest["evaluations"].items()
    wanted = {ROOT_REF: manifest["root"]["root_commit"]} | {name: node["commit"] for name, node in nodes.items()}
    wanted |= {name: each["candidate_commit"] for name, each in evaluations if each["candidate_commit"]}
    pinned = pinned_commits(repo.path, run)
    for name in sorted(pinned.keys() - wanted.keys() - {HOLDOUT_REF}):
        unpin(repo.path, run, name)
    for name in sorted(wanted):
        if pinned.get(name) != wanted[name]:
            pin(repo.path, run, name, repo.commit(ROOT if name == ROOT_REF else parse_position(name)))
    for name in _folders(repo.nodes.folder):
        if name not in nodes:
            repo.nodes.remove(name)
    for name, node in nodes.items():
        if _commit_at(repo, name) != node["commit"]:  # a recalled node has not moved it
            repo.nodes.add(name, node["commit"])
    if not manifest["run_config"]["keep"]["rejected_worktrees"]:
        for name in _folders(repo.at.of_run(CANDIDATES)):
            repo.candidates.remove(name)


def _commit_at(repo: RunRepo, name: str) -> str:
    try:
        return worktree_head(repo.nodes.require(name))
    except GitProblem:
        return ""


def _folders(path: str) -> list[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []
