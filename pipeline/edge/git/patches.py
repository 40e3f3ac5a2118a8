"""Recorded ideas: what a patch makes of a commit's tree, without any files being checked out."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from pipeline.edge.files import write_all
from pipeline.edge.git.command import GitProblem, git, names
from pipeline.edge.git.diff import Counts, counts_of
from pipeline.edge.git.folders import scratch
from pipeline.edge.git.index import is_whole, write_tree
from pipeline.errors import clipped

EXACT = ("--binary", "--whitespace=nowarn")
_COUNTED = ("--numstat", "-z", "--apply")
# Lines of a patch begin with one of these letters only where it says what sort of file there is.
_MODE = re.compile(rb"^(?:new file mode|new mode|index \S+)[ \t]+([0-7]+)", re.MULTILINE)

# What the file systems of all machines take, with room for the folder that it is checked out in.
_LONGEST_NAME, _LONGEST_PATH = 255, 700


class Applied(NamedTuple):
    """`counts` is nothing where the patch itself does not tell."""

    tree: str
    counts: Counts | None
    paths: list[str]


def applied(repo: str, start: bytes, patch: bytes) -> Applied:
    """`start` is the index of the commit that the patch is for.  All of the patch or nothing."""
    check_types(patch)
    with scratch(f"{repo}/coppice") as index:
        write_all(index, start)
        told = git("apply", *_COUNTED, "--cached", *EXACT, repo=repo, index=index, stdin=patch)
        paths = [row.split("\t", 2)[2] for row in names(told)]
        return Applied(write_tree(repo, index), counts_of(patch, told), paths)


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


def check_paths(paths: list[str]) -> None:
    """Before anybody has checked them out: whoever measures the commit could not."""
    for path in paths:
        if len(os.fsencode(path)) > _LONGEST_PATH or max(map(len, os.fsencode(path).split(b"/"))) > _LONGEST_NAME:
            raise GitProblem(f"the name of a file is too long: {clipped(repr(path))}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
