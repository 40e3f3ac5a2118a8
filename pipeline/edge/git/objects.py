"""Reads and writes objects of a repository as git does, which is started only for what lies in packs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple

from pipeline.edge.files import append_all
from pipeline.edge.git.command import SETTINGS, GitProblem, git, sha

if TYPE_CHECKING:
    from git import Repo

WHO = "Coppice <coppice@localhost>"
EPOCH = 946_684_800  # 2000-01-01T00:00:00Z
# Git tells its hooks by these where the repository is.  GitPython would take them for ours.
_CALLERS = ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
_CALLERS += ["GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"]


class Parent(NamedTuple):
    """What a commit on top of it needs to know."""

    tree: str
    date: int


class NoCommit(GitProblem):
    """It must be made again from its record, where there is one."""


@contextmanager
def opened(repo: str) -> Iterator[Repo]:
    """By GitPython.  Closed afterwards: each one open keeps processes of git."""
    for name in _CALLERS:
        os.environ.pop(name, None)
    from git import Repo

    with Repo(repo, expand_vars=False) as found:
        found.git.update_environment(**SETTINGS, GIT_DIR=repo)
        yield found


def has(repo: str, commit: str) -> bool:
    """Is the commit there, or must it be made again from its record?"""
    try:
        parent_of_next(repo, commit)
    except NoCommit:
        return False
    return True


def tree_hash(repo: str, commit: str) -> str:
    return parent_of_next(repo, commit).tree


def parent_of_next(repo: str, commit: str) -> Parent:
    text = loose_commit(repo, sha(commit))
    return _elsewhere(repo, commit) if text is None else _read(text)


def loose_commit(repo: str, commit: str) -> bytes | None:
    """Nothing when it is not in a file of its own, or when that is damaged."""
    try:
        with open(f"{repo}/objects/{commit[:2]}/{commit[2:]}", "rb", buffering=0) as file:
            whole = zlib.decompress(file.read())
    except (FileNotFoundError, zlib.error):
        return None
    kind, _, text = whole.partition(b"\0")
    return text if kind.startswith(b"commit ") else None


@lru_cache(maxsize=4096)
def _elsewhere(repo: str, commit: str) -> Parent:
    """In a pack, or the user's.  Asked once: a ref keeps it there, and its hash says that it stays the same."""
    told = git("cat-file", "--batch", repo=repo, stdin=commit.encode())
    about, _, text = told.partition(b"\n")
    if about.split()[1:2] != [b"commit"]:
        raise NoCommit(f"{repo}: has no commit {commit}")
    return _read(text)


def _read(text: bytes) -> Parent:
    lines = text.partition(b"\n\n")[0].split(b"\n")
    committer = next(line for line in lines if line.startswith(b"committer "))
    return Parent(lines[0].removeprefix(b"tree ").decode(), int(committer.split()[-2]))


def write_commit(repo: str, tree: str, parents: tuple[str, ...], date: int, message: str) -> str:
    """Put together here: `git commit-tree` would ask the configuration for the encoding and for a signature."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {WHO} {date} +0000", f"committer {WHO} {date} +0000"]
    text = "\n".join([*lines, "", message.replace("\0", "").strip(), ""])
    return write_object(repo, b"commit", text.encode(errors="replace"))


def write_object(repo: str, kind: bytes, text: bytes) -> str:
    """Its hash.  Written anew where it is: a power cut may have damaged it, and what is young is not pruned."""
    name = name_of(kind, text)
    folder = f"{repo}/objects/{name[:2]}"
    draft = f"{folder}/tmp_obj_{os.urandom(8).hex()}"  # git clears away drafts of that name
    os.makedirs(folder, exist_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        append_all(fd, zlib.compress(_whole(kind, text), 1))
        os.rename(draft, f"{folder}/{name[2:]}")
    except BaseException:
        os.unlink(draft)
        raise
    finally:
        os.close(fd)
    return name


def name_of(kind: bytes, text: bytes) -> str:
    return sha1(_whole(kind, text)).hexdigest()


def _whole(kind: bytes, text: bytes) -> bytes:
    return b"%b %d\0%b" % (kind, len(text), text)
