"""What git has of many commits, asked in one go: whether they are there, their trees and their parents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.edge.git.command import git, sha
from pipeline.edge.git.folders import text_of
from pipeline.edge.git.worktrees import PRISTINE, Worktree


class Known(NamedTuple):
    """`parent` is empty for a commit without one."""

    tree: str
    parent: str


def known(repo: str, commits: Iterable[str]) -> dict[str, Known]:
    """Those that are there."""
    wanted = sorted({*commits})
    trees, parents = (_named(repo, wanted, suffix) for suffix in ("^{tree}", "^1"))
    return {commit: Known(trees[commit], parents.get(commit, "")) for commit in wanted if commit in trees}


def _named(repo: str, commits: list[str], suffix: str) -> dict[str, str]:
    asked = "".join(f"{sha(commit)}{suffix}\n" for commit in commits)
    rows = git("cat-file", "--batch-check=%(objectname)", repo=repo, stdin=asked.encode()).decode().splitlines()
    return {commit: row for commit, row in zip(commits, rows, strict=True) if not row.endswith(" missing")}


def head(worktree: Worktree) -> str:
    """The commit that it was checked out at."""
    return text_of(f"{worktree.admin}/HEAD").strip()


def changed(worktree: Worktree) -> list[str]:
    """Files that are not as they were checked out, and others beside them; not those that git is told to ignore."""
    status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"]
    listed = worktree.git(*status, index=f"{worktree.admin}/{PRISTINE}").decode(errors="replace")
    return [row[3:] for row in listed.split("\0") if row]
