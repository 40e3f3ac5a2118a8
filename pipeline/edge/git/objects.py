"""Reads commits, trees and refs through GitPython; writes commits whose hash depends on their contents alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pipeline.edge.git.command import SETTINGS, GitProblem, git, sha

if TYPE_CHECKING:
    from git import Commit, Repo

WHO = "Coppice <coppice@localhost>"
EPOCH = 946_684_800  # 2000-01-01T00:00:00Z
# Git tells its hooks by these where the repository is.  GitPython would take them for ours.
_CALLERS = ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
_CALLERS += ["GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"]


class Parent(NamedTuple):
    """What a commit on top of it needs to know."""

    tree: str
    date: int


@contextmanager
def opened(repo: str) -> Iterator[Repo]:
    """Closed afterwards: each one open keeps processes of git."""
    for name in _CALLERS:
        os.environ.pop(name, None)
    from git import Repo

    with Repo(repo, expand_vars=False) as found:
        found.git.update_environment(**SETTINGS, GIT_DIR=repo)
        yield found


def commit_in(found: Repo, commit: str) -> Commit:
    from git.exc import BadName, BadObject

    try:
        return found.commit(sha(commit))
    except (BadName, BadObject, ValueError) as error:
        raise GitProblem(f"{found.git_dir}: has no commit {commit}") from error


def has(repo: str, commit: str) -> bool:
    """Is the commit there, or must it be made again from its record?"""
    return git("cat-file", "--batch-check", repo=repo, stdin=sha(commit).encode()).split()[1:2] == [b"commit"]


def tree_hash(repo: str, commit: str) -> str:
    return parent_of_next(repo, commit).tree


def parent_of_next(repo: str, commit: str) -> Parent:
    with opened(repo) as found:
        read = commit_in(found, commit)
        return Parent(read.tree.hexsha, read.committed_date)


def write_commit(repo: str, tree: str, parents: tuple[str, ...], date: int, message: str) -> str:
    """Put together here: `git commit-tree` would ask the configuration for the encoding and for a signature."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {WHO} {date} +0000", f"committer {WHO} {date} +0000"]
    text = "\n".join([*lines, "", message.replace("\0", "").strip(), ""])
    written = git("hash-object", "-t", "commit", "-w", "--stdin", repo=repo, stdin=text.encode(errors="replace"))
    return written.decode().strip()
