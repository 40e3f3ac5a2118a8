"""Candidates: whatever a coder left in a worktree as a commit that is the same on every machine, and as a patch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pipeline.edge.git.command import CandidateProblem, GitProblem, git, names, sha
from pipeline.edge.git.diff import Counts, diff_stat
from pipeline.edge.git.folders import open_folders, scratch
from pipeline.edge.git.index import trees_in, write_tree
from pipeline.edge.git.objects import parent_of_next, tree_hash, write_commit
from pipeline.edge.git.patches import EXACT, applied, check_paths, check_types, index_of
from pipeline.edge.git.worktrees import PRISTINE, Worktree, copy_index

_NO_BLOB = b"1" * 40


class Candidate(NamedTuple):
    """What its record holds: with the patch, enough to make the commit again anywhere."""

    commit: str
    tree: str
    parent: str
    message: str
    files: int
    insertions: int
    deletions: int

    @property
    def empty(self) -> bool:
        """The coder changed nothing."""
        return self.files == 0


def commit_of(worktree: Worktree, parent: str, message: str) -> Candidate:
    """All files that are not ignored, as they are.  Where the coder's own git commands have led does not matter."""
    with scratch(worktree.admin) as index:
        tree = _tree_of(worktree, sha(parent), index)
    return _candidate(worktree.repo, tree, parent, message)


def _tree_of(worktree: Worktree, parent: str, index: str) -> str:
    repositories_within = open_folders(worktree.path)
    if os.path.exists(f"{worktree.admin}/{PRISTINE}"):
        copy_index(f"{worktree.admin}/{PRISTINE}", index)
    known = trees_in(index) if os.path.exists(index) else []
    if known[:1] != [tree_hash(worktree.repo, parent)]:
        worktree.git("read-tree", "-m", parent, index=index)
    if repositories_within:
        _take_in_repositories(worktree, index)
    try:
        worktree.git("add", "--all", index=index)
    except GitProblem as problem:
        raise CandidateProblem(f"the files cannot be committed: {problem}") from problem
    return write_tree(worktree.repo, index, known)


def _take_in_repositories(worktree: Worktree, index: str) -> None:
    """What a coder made a repository of its own is files to us.  Git takes it for a folder as soon as something in it
    is in the index: a file that is not there, so that adding all will drop it."""
    seen: set[str] = set()
    while True:
        others = names(worktree.git("ls-files", "-z", "--others", "--exclude-standard", index=index))
        inner = {name for name in others if name.endswith("/")} - seen
        if not inner:
            return
        seen |= inner
        rows = b"".join(b"100644 %b\t%b\0" % (_NO_BLOB, os.fsencode(f"{name}coppice-none")) for name in inner)
        worktree.git("update-index", "-z", "--index-info", index=index, stdin=rows)


def commit_patch(repo: str, parent: str, patch: bytes, message: str) -> Candidate:
    """A recorded idea without a worktree, all of it or nothing.  It is taken at its word: files that it adds are in the
    commit even if they are ignored, and lines count as it was written."""
    start = index_of(repo, sha(parent))
    with _candidates_fault():
        made = applied(repo, start, patch)
        check_paths(made.paths)
    return _candidate(repo, made.tree, parent, message, made.counts)


def _candidate(repo: str, tree: str, parent: str, message: str, counts: Counts | None = None) -> Candidate:
    above = parent_of_next(repo, parent)
    commit = write_commit(repo, tree, (parent,), above.date + 1, message)
    if tree == above.tree:
        counts = Counts(0, 0, 0)
    return Candidate(commit, tree, parent, message, *(counts or diff_stat(repo, parent, commit).counts))


def patch(repo: str, parent: str, commit: str) -> bytes:
    """All that differs, binary files too."""
    form = ["-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"]
    return git("diff-tree", *form, sha(parent), sha(commit), "--", repo=repo)


def restore(repo: str, parent: str, patch: bytes, candidate: Candidate) -> None:
    """Make the very commit again that `candidate` tells of."""
    above = parent_of_next(repo, parent)
    tree = applied(repo, index_of(repo, parent), patch).tree if patch else above.tree
    made = write_commit(repo, tree, (parent,), above.date + 1, candidate.message)
    if made != candidate.commit:
        raise GitProblem(f"the patch makes {made}, the record says {candidate.commit}: one of them was changed")


def apply(worktree: Worktree, patch: bytes) -> None:
    """A recorded idea, all of it or nothing."""
    with _candidates_fault():
        check_types(patch)
        worktree.git("apply", "--index", *EXACT, stdin=patch)


@contextmanager
def _candidates_fault() -> Iterator[None]:
    try:
        yield
    except GitProblem as problem:
        raise CandidateProblem(f"the patch does not apply: {problem}") from problem
