"""Refs that keep the commits of a run: refs/coppice/<run>/<slot>."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from pipeline.edge.git.command import git, sha
from pipeline.edge.git.objects import opened

# What git forbids in a part of a ref beyond what `quote` escapes.
_FORBIDDEN = re.compile(r"^\.|\.(?=\.|lock$|$)|~")


def pin(repo: str, run: str, slot: str, commit: str) -> None:
    _update(repo, f"update {_ref(run, slot)}\0{sha(commit)}\0\0")


def unpin(repo: str, run: str, slot: str) -> None:
    """Nothing to do when it is not pinned."""
    _update(repo, f"delete {_ref(run, slot)}\0\0")


def pinned(repo: str, run: str) -> dict[str, str]:
    """The commit of each slot."""
    from git import Reference

    folder = f"refs/coppice/{_part(run)}/"
    found: dict[str, str] = {}
    with opened(repo) as read:
        for ref in Reference.iter_items(read, folder.rstrip("/")):
            if not ref.path.startswith(folder):
                continue  # of packed refs GitPython gives those of run x1 for run x
            try:
                found[unquote(ref.path.removeprefix(folder))] = ref.commit.hexsha
            except ValueError:  # unpinned since they were listed
                continue
    return dict(sorted(found.items()))


def _ref(run: str, slot: str) -> str:
    return f"refs/coppice/{_part(run)}/{_part(slot)}"


def _part(name: str) -> str:
    return _FORBIDDEN.sub(lambda found: f"%{ord(found[0]):02X}", quote(name, safe=""))


def _update(repo: str, order: str) -> None:
    git("update-ref", "-z", "--stdin", repo=repo, stdin=order.encode())
