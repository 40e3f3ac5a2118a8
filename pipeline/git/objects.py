"""Objects of a repository: commits read and written as git does, files of a tree, differences between two.

Git is started only for packed objects and for trees.  An object that is there is written anew: a power cut may have
damaged it, and git does not prune young objects."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, NamedTuple

from pipeline.git.command import SETTINGS, GitProblem, checked_sha, git, split_names
from pipeline.store.files import append_all

if TYPE_CHECKING:
    from git import Repo


WHO = "Coppice <coppice@localhost>"
EPOCH = 946_684_800  # 2000-01-01T00:00:00Z
# Variables by which git tells its hooks where the repository is.  GitPython would take them for ours.
_CALLERS = ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
_CALLERS += ["GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"]


class ParentCommit(NamedTuple):
    """The facts of a commit that its child needs."""

    tree: str
    date: int


class NoCommit(GitProblem):
    """A commit is missing; it can be made again from its record, where there is one."""


@contextmanager
def open_with_gitpython(repo: str) -> Iterator[Repo]:
    """Open a repository with GitPython, closed afterwards: an open one keeps processes of git."""
    for name in _CALLERS:
        os.environ.pop(name, None)
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # it looks for a git, of which it shall start none
    from git import Repo

    with Repo(repo, expand_vars=False) as found:
        found.git.update_environment(**SETTINGS, GIT_DIR=repo)
        yield found


def has_commit(repo: str, commit: str) -> bool:
    """True when the commit is there; else it must be made again from its record."""
    try:
        parent_commit(repo, commit)
    except NoCommit:
        return False
    return True


def tree_hash(repo: str, commit: str) -> str:
    return parent_commit(repo, commit).tree


def parent_commit(repo: str, commit: str) -> ParentCommit:
    return _parse_commit(commit_text(repo, commit))


def commit_text(repo: str, commit: str) -> bytes:
    """The text of a commit, as it is hashed behind its header."""
    text = loose_commit(repo, checked_sha(commit))
    return _packed_commit(repo, commit) if text is None else text


def loose_commit(repo: str, commit: str) -> bytes | None:
    """The text of a commit in a file of its own; None for another one, or a damaged file."""
    try:
        with open(f"{repo}/objects/{commit[:2]}/{commit[2:]}", "rb", buffering=0) as file:
            whole = zlib.decompress(file.read())
    except (FileNotFoundError, zlib.error):
        return None
    kind, _, text = whole.partition(b"\0")
    return text if kind.startswith(b"commit ") else None


@lru_cache(maxsize=4096)
def _packed_commit(repo: str, commit: str) -> bytes:
    """A commit of a pack or of the user's repository, read once: a ref keeps it there, and its hash is its content."""
    about, _, text = git("cat-file", "--batch", repo=repo, stdin=commit.encode()).partition(b"\n")
    if about.split()[1:2] != [b"commit"]:
        raise NoCommit(f"{repo}: has no commit {commit}")
    return text[: int(about.split()[2])]


def _parse_commit(text: bytes) -> ParentCommit:
    lines = text.partition(b"\n\n")[0].split(b"\n")
    committer = next(line for line in lines if line.startswith(b"committer "))
    return ParentCommit(lines[0].removeprefix(b"tree ").decode(), int(committer.split()[-2]))


def write_commit(repo: str, tree: str, parents: tuple[str, ...], date: int, message: str, who: str = WHO) -> str:
    """Write a commit: `git commit-tree` would ask the configuration for the encoding and for a signature."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {who} {date} +0000", f"committer {who} {date} +0000"]
    text = "\n".join([*lines, "", message.replace("\0", "").strip(), ""])
    return write_object(repo, b"commit", text.encode(errors="replace"))


def write_object(repo: str, kind: bytes, text: bytes) -> str:
    """Write an object, anew if it is there; its hash."""
    name = object_name(kind, text)
    folder = f"{repo}/objects/{name[:2]}"
    draft = f"{folder}/tmp_obj_{os.urandom(8).hex()}"  # git removes drafts of that name
    os.makedirs(folder, exist_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        append_all(fd, zlib.compress(_with_header(kind, text), 1))
        os.rename(draft, f"{folder}/{name[2:]}")
    except BaseException:
        os.unlink(draft)
        raise
    finally:
        os.close(fd)
    return name


def copy_index(index: str, copy: str) -> None:
    """Copy an index with its time: git reads again all files that are not older than the index."""
    shutil.copy2(index, copy)


def object_name(kind: bytes, text: bytes) -> str:
    return sha1(_with_header(kind, text)).hexdigest()


def _with_header(kind: bytes, text: bytes) -> bytes:
    return b"%b %d\0%b" % (kind, len(text), text)


LINK = "120000"  # the mode of a symbolic link, whose blob is its target
_NONE = "000000"


class TreeEntry(NamedTuple):
    """A file or a link of a tree, as git has it."""

    mode: str
    blob: str


class Change(NamedTuple):
    """A path with its entries before and after; None for no entry."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


def tree_entries(repo: str, tree: str) -> dict[str, TreeEntry]:
    """The entries of a tree by path; names need not be UTF-8."""
    found: dict[str, TreeEntry] = {}
    for row in split_names(git("ls-tree", "-r", "-z", "--full-tree", checked_sha(tree), repo=repo)):
        about, _, path = row.partition("\t")
        mode, _, blob = about.split(" ")
        found[path] = TreeEntry(mode, blob)
    return found


class SizedEntry(NamedTuple):
    """An entry of a tree with its size in bytes."""

    entry: TreeEntry
    size: int


def sized_entries(repo: str, tree: str) -> dict[str, SizedEntry]:
    """The files and links of a tree by path, with their sizes."""
    found: dict[str, SizedEntry] = {}
    for row in split_names(git("ls-tree", "-r", "-z", "--long", "--full-tree", checked_sha(tree), repo=repo)):
        about, _, path = row.partition("\t")
        mode, kind, blob, size = about.split()
        if kind == "blob":
            found[path] = SizedEntry(TreeEntry(mode, blob), int(size))
    return found


@lru_cache(maxsize=1024)
def tree_changes(repo: str, a: str, b: str) -> tuple[Change, ...]:
    """The changes from one tree to another; kept, as hashes never change their meaning."""
    form = ("-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev")
    listed = iter(split_names(git("diff-tree", *form, checked_sha(a), checked_sha(b), "--", repo=repo)))
    found = []
    for row in listed:
        old, new, before, after, _ = row.removeprefix(":").split(" ")
        found.append(Change(next(listed), _entry(old, before), _entry(new, after)))
    return tuple(found)


def _entry(mode: str, blob: str) -> TreeEntry | None:
    return None if mode == _NONE else TreeEntry(mode, blob)


def read_blobs(repo: str, wanted: Iterable[str]) -> dict[str, bytes]:
    """The contents of files."""
    blobs = sorted({checked_sha(blob) for blob in wanted})
    batch = git("cat-file", "--batch", repo=repo, stdin="".join(f"{blob}\n" for blob in blobs).encode())
    found, at = {}, 0
    for blob in blobs:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[2])
        found[blob] = batch[end + 1 : end + 1 + size]
        at = end + size + 2
    return found


_RENAMED = re.compile(rb"^(?:rename|copy) from ", re.MULTILINE)


class FileStat(NamedTuple):
    """The change of a file; lines of a binary one are not counted."""

    path: str
    insertions: int
    deletions: int


class Counts(NamedTuple):
    files: int
    insertions: int
    deletions: int


def diff_stat(repo: str, a: str, b: str) -> tuple[FileStat, ...]:
    """The changes between two commits, by git: GitPython fails on names with newlines or not in UTF-8."""
    form = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    listed = split_names(git("diff-tree", *form, checked_sha(a), checked_sha(b), "--", repo=repo))
    rows = [row.split("\t", 2) for row in listed]
    return tuple(
        FileStat(path, int(plus.replace("-", "0")), int(minus.replace("-", "0"))) for plus, minus, path in rows
    )


def counts_of(patch: bytes, numstat: bytes) -> Counts | None:
    """The counts of a patch, from the output of `git apply --numstat -z`.  None when only a diff of the commits tells:
    a file can be named twice, under one of two names, or be binary to the patch alone."""
    rows = [row.split("\t", 2) for row in split_names(numstat)]
    if _RENAMED.search(patch) or "-" in {row[0] for row in rows} or len({row[2] for row in rows}) < len(rows):
        return None
    return Counts(len(rows), sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))


def patch_text(repo: str, a: str, b: str) -> bytes:
    """The changes between two commits as a patch for people."""
    form = ("-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv")
    return git("diff-tree", *form, checked_sha(a), checked_sha(b), "--", repo=repo)
