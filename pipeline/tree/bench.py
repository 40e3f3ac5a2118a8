"""The run's repository as the records want it: a commit that is missing is made again from its patches."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pipeline.edge.git.command import GitProblem
from pipeline.edge.git.commits import Candidate, restore
from pipeline.edge.git.home import home_of, kept
from pipeline.edge.git.objects import has
from pipeline.edge.git.repository import reopened
from pipeline.edge.git.worktrees import Worktree, Worktrees
from pipeline.tree.layout import BY_HAND, CANDIDATES, NODES, Layout
from pipeline.tree.records import Record, load, read_bytes
from pipeline.tree.slots import ROOT, Place, Slot

CANDIDATE = ("commit", "tree", "parent", "message", "files", "insertions", "deletions")


class Chains(Protocol):
    """All that a decision asks of a run's repository: that the code of a node is there."""

    @property
    def repo(self) -> str: ...
    def chain(self, code: Mapping[str, Any]) -> str: ...


class Archive:
    """The run's repository as it is found: nothing is made again, nothing is written."""

    def __init__(self, run: str) -> None:
        self.run, self.repo = run, home_of(run)

    def chain(self, code: Mapping[str, Any]) -> str:
        commit = str(code["commit"])
        if not os.path.isdir(f"{self.repo}/objects"):
            raise GitProblem(f"runs/{self.run}/repo.git is missing")
        if not has(self.repo, commit):
            raise GitProblem(f"runs/{self.run}/repo.git has no commit {commit}")
        return commit


class Bench:
    """Where the candidates of one run are made and measured."""

    def __init__(self, run: str) -> None:
        self.at = Layout(run)
        root = load(self.at.of_run("root.json"))
        self.repo = reopened(root["repo"], run, root["commit"])

    def chain(self, code: Mapping[str, Any]) -> str:
        """The commit of a node, with all that led to it."""
        for link in _missing(self.repo, code["chain"]):
            self.restore(link, base64.b64decode(link["patch"]))
        return str(code["commit"])

    def restore(self, record: Mapping[str, Any], patch: bytes) -> str:
        candidate = Candidate(**{name: record[name] for name in CANDIDATE})
        if not has(self.repo, candidate.commit):
            restore(self.repo, candidate.parent, patch, candidate)
        return candidate.commit

    def commit(self, where: Slot | Place) -> str:
        """What the records say is there; they are beside what a stage reads, and say no more than where it is."""
        if where == ROOT:
            return str(load(self.at.of_run("root.json"))["commit"])
        if isinstance(where, Place):
            return self.chain(load(self.at.of_node(where, "code.json")))
        record = load(self.at.of_eval(where, "candidate.json"))
        if not has(self.repo, record["commit"]):
            self.chain(load(self.at.of_node(where.place, "code.json")))
            self.restore(record, read_bytes(self.at.of_eval(where, "change.patch")))
        return str(record["commit"])

    @property
    def nodes(self) -> Worktrees:
        return Worktrees(self.repo, self.at.of_run(NODES))

    @property
    def by_hand(self) -> Worktrees:
        """Where people work, for as long as they like."""
        return Worktrees(self.repo, self.at.of_run(BY_HAND))

    @property
    def candidates(self) -> Worktrees:
        return Worktrees(self.repo, self.at.of_run(CANDIDATES))

    @contextmanager
    def checkout(self, name: str, commit: str, keep: bool = False) -> Iterator[Worktree]:
        """A clean one, gone afterwards; what a kill leaves is cleaned when it is asked for again."""
        kept(self.repo)
        try:
            yield self.candidates.add(name, commit)
        finally:
            if not keep:
                self.candidates.remove(name)


def _missing(repo: str, chain: list[Record]) -> list[Record]:
    """The links from the first one that is not there; usually none, and the last one tells."""
    if not chain or has(repo, chain[-1]["commit"]):
        return []
    return next((chain[i:] for i, link in enumerate(chain) if not has(repo, link["commit"])), [])


def link(candidate: Mapping[str, Any], patch: bytes) -> Record:
    return {name: candidate[name] for name in CANDIDATE} | {"patch": base64.b64encode(patch).decode()}
