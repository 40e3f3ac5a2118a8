"""A copy of a text in the run's own repository, so that it is noticed when the file is removed or cut."""

from __future__ import annotations

from pipeline.edge.git.command import git, sha
from pipeline.edge.git.refs import pin_by_git, pinned


def keep_copy(repo: str, run: str, name: str, content: bytes) -> None:
    """As a blob that a ref keeps: refs/coppice/<run>/<name>."""
    blob = git("hash-object", "-w", "--stdin", repo=repo, stdin=content).decode().strip()
    pin_by_git(repo, run, name, blob)


def copy_of(repo: str, run: str, name: str) -> bytes:
    """Empty when there is none."""
    found = pinned(repo, run).get(name)
    return git("cat-file", "blob", sha(found), repo=repo) if found else b""
