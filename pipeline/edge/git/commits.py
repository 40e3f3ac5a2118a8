"""Candidates: whatever a coder left in a worktree as a commit that is the same on every machine, and as a patch."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pipeline.edge.git.command import CandidateProblem, GitProblem, git, names, sha
from pipeline.edge.git.diff import diff_stat
from pipeline.edge.git.folders import open_folders
from pipeline.edge.git.objects import parent_of_next, write_commit
from pipeline.edge.git.worktrees import PRISTINE, Worktree, copy_index

_NO_BLOB = b"1" * 40
_EXACT = ("--binary", "--whitespace=nowarn")


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
    with TemporaryDirectory(dir=worktree.admin) as scratch:
        tree = _tree_of(worktree, sha(parent), f"{scratch}/index")
    return _candidate(worktree.repo, tree, parent, message)


def _tree_of(worktree: Worktree, parent: str, index: str) -> str:
    open_folders(worktree.path)
    if os.path.exists(f"{worktree.admin}/{PRISTINE}"):
        copy_index(f"{worktree.admin}/{PRISTINE}", index)
    worktree.git("read-tree", "-m", parent, index=index)
    _take_in_repositories(worktree, index)
    try:
        worktree.git("add", "--all", index=index)
    except GitProblem as problem:
        raise CandidateProblem(f"the files cannot be committed: {problem}") from problem
    return worktree.git("write-tree", index=index).decode().strip()


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


def _candidate(repo: str, tree: str, parent: str, message: str) -> Candidate:
    commit = write_commit(repo, tree, (parent,), parent_of_next(repo, parent).date + 1, message)
    changed = diff_stat(repo, parent, commit)
    return Candidate(commit, tree, parent, message, len(changed.files), changed.insertions, changed.deletions)


def patch(repo: str, parent: str, commit: str) -> bytes:
    """All that differs, binary files too."""
    form = ["-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"]
    return git("diff-tree", *form, sha(parent), sha(commit), "--", repo=repo)


def restore(repo: str, parent: str, patch: bytes, candidate: Candidate) -> None:
    """Make the very commit again that `candidate` tells of."""
    with TemporaryDirectory(dir=repo) as scratch:
        index = f"{scratch}/index"
        git("read-tree", sha(parent), repo=repo, index=index)
        if patch:
            git("apply", "--cached", *_EXACT, repo=repo, index=index, stdin=patch)
        tree = git("write-tree", repo=repo, index=index).decode().strip()
    made = write_commit(repo, tree, (parent,), parent_of_next(repo, parent).date + 1, candidate.message)
    if made != candidate.commit:
        raise GitProblem(f"the patch makes {made}, the record says {candidate.commit}: one of them was changed")


def apply(worktree: Worktree, patch: bytes) -> None:
    """A recorded idea, all of it or nothing."""
    try:
        worktree.git("apply", "--index", *_EXACT, stdin=patch)
    except GitProblem as problem:
        raise CandidateProblem(f"the patch does not apply: {problem}") from problem


def commit_patch(repo: str, parent: str, change: bytes, message: str) -> Candidate:
    """A recorded idea as a commit, without a worktree."""
    with TemporaryDirectory(dir=repo) as scratch:
        index = f"{scratch}/index"
        git("read-tree", sha(parent), repo=repo, index=index)
        try:
            git("apply", "--cached", *_EXACT, repo=repo, index=index, stdin=change)
        except GitProblem as problem:
            raise CandidateProblem(f"the patch does not apply: {problem}") from problem
        tree = git("write-tree", repo=repo, index=index).decode().strip()
    return _candidate(repo, tree, parent, message)
