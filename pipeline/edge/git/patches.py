"""Recorded ideas: what a patch makes of a commit's tree, without any files being checked out."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from pipeline.edge.files import write_all
from pipeline.edge.git.command import GitProblem, git
from pipeline.edge.git.diff import Counts, counts_of
from pipeline.edge.git.folders import scratch
from pipeline.edge.git.index import is_whole, write_tree

EXACT = ("--binary", "--whitespace=nowarn")
_COUNTED = ("--numstat", "-z", "--apply")
# Lines of a patch begin with one of these letters only where it says what sort of file there is.
_MODE = re.compile(rb"^(?:new file mode|new mode|index \S+)[ \t]+([0-7]+)", re.MULTILINE)


class Applied(NamedTuple):
    """`counts` is nothing where the patch itself does not tell."""

    tree: str
    counts: Counts | None


def applied(repo: str, start: bytes, patch: bytes) -> Applied:
    """`start` is the index of the commit that the patch is for.  All of the patch or nothing."""
    check_types(patch)
    with scratch(f"{repo}/coppice") as index:
        write_all(index, start)
        told = git("apply", *_COUNTED, "--cached", *EXACT, repo=repo, index=index, stdin=patch)
        return Applied(write_tree(repo, index), counts_of(patch, told))


def index_of(repo: str, commit: str) -> bytes:
    """Made once, for all the patches to come; again when a power cut has damaged it."""
    kept = f"{repo}/coppice/{commit}.index"
    if os.path.exists(kept) and is_whole(text := _read(kept)):
        return text
    os.makedirs(f"{repo}/coppice", exist_ok=True)
    with scratch(f"{repo}/coppice") as index:
        git("read-tree", commit, repo=repo, index=index)
        os.replace(index, kept)
    return _read(kept)


def check_types(patch: bytes) -> None:
    for mode in _MODE.findall(patch):
        if stat.S_IFMT(int(mode, 8)) not in (stat.S_IFREG, stat.S_IFLNK):
            raise GitProblem("submodules are not supported; a candidate is one tree of files")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
