"""Objects and refs of a repository: commits read and written as git does, files of a tree, differences between two.

Git is started only for packed objects and for trees.  An object that is there is written anew: a power cut may have
damaged it, and git does not prune young objects.  Refs keep a run's commits, and copies of its texts, which show when a
file is removed or cut; branches are refs in the user's repository."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from pipeline.git.command import SETTINGS, GitProblem, checked_sha, git, split_names, users_git
from pipeline.store.files import append_all, write_all
from pipeline.store.flock import file_lock
from pipeline.store.folders import remove_file

if TYPE_CHECKING:
    from git import Repo


WHO = "Coppice <coppice@localhost>"
EPOCH = 946_684_800  # 2000-01-01T00:00:00Z
# Variables by which git tells its hooks where the repository is.  GitPython would take them for ours.
_CALLERS = ["GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"]
_CALLERS += ["GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE"]

# Parts of a ref that git forbids and `quote` does not escape.
_FORBIDDEN = re.compile(r"^\.|\.(?=\.|lock$|$)|~")


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


def pin(repo: str, run: str, slot: str, commit: str) -> None:
    """Pin a commit in the run's own repository, where a ref is a file; git does it where a file cannot be written."""
    ref = _ref(run, slot)
    with file_lock(f"{repo}/coppice/refs.lock"):
        _remove_remains(repo, ref)
        written = loose_commit(repo, checked_sha(commit)) is not None and _write_ref(repo, ref, commit)
    if not written:
        pin_by_git(repo, run, slot, commit)


def pin_by_git(repo: str, run: str, slot: str, commit: str) -> None:
    """Pin a commit in any repository, whatever it keeps its refs in."""
    _update(repo, f"update {_ref(run, slot)}\0{checked_sha(commit)}\0\0")


def unpin(repo: str, run: str, slot: str) -> None:
    """Remove a pin, if there is one."""
    ref = _ref(run, slot)
    with file_lock(f"{repo}/coppice/refs.lock"):
        _remove_remains(repo, ref)
    _update(repo, f"delete {ref}\0\0")


def pinned_commits(repo: str, run: str) -> dict[str, str]:
    """The commit of each slot."""
    folder = f"refs/coppice/{_part(run)}/"
    listed = git("for-each-ref", "--format=%(objectname) %(refname)", folder, repo=repo).decode()
    rows = (line.split(" ", 1) for line in listed.splitlines())
    return dict(sorted((unquote(ref.removeprefix(folder)), commit) for commit, ref in rows))


def is_pinned(repo: str, run: str, slot: str) -> bool:
    """True for a ref in a file of its own, as `pin` leaves it."""
    return os.path.exists(f"{repo}/{_ref(run, slot)}")


def _ref(run: str, slot: str) -> str:
    return f"refs/coppice/{_part(run)}/{_part(slot)}"


def _part(name: str) -> str:
    return _FORBIDDEN.sub(lambda found: f"%{ord(found[0]):02X}", quote(name, safe=""))


def _write_ref(repo: str, ref: str, commit: str) -> bool:
    """Write a ref by git's own rule: the holder of the lock beside it may.  Ours is a hard link of our draft."""
    path, draft = f"{repo}/{ref}", _draft(repo, ref)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_all(draft, f"{commit}\n".encode())
        os.link(draft, f"{path}.lock")
        os.rename(f"{path}.lock", path)
        os.unlink(draft)
    except OSError:
        _remove_remains(repo, ref)
        return False
    return True


def _remove_remains(repo: str, ref: str) -> None:
    """Remove the draft and lock of a killed process of ours, as none is at work now; a lock of git is left to it."""
    lock, draft = f"{repo}/{ref}.lock", _draft(repo, ref)
    if os.path.exists(draft):
        with suppress(FileNotFoundError):  # there is no lock, or git has just let go of its own
            if os.path.samefile(lock, draft):
                remove_file(lock)
        remove_file(draft)  # last: it may be a second name of the ref, and is not to be written to


def _draft(repo: str, ref: str) -> str:
    return f"{repo}/coppice/{sha256(ref.encode()).hexdigest()[:20]}.ref"


def _update(repo: str, order: str) -> None:
    git("update-ref", "-z", "--stdin", repo=repo, stdin=order.encode())


def keep_copy(repo: str, run: str, name: str, content: bytes) -> None:
    """Keep a copy of a text as a blob at refs/coppice/<run>/<name>."""
    blob = git("hash-object", "-w", "--stdin", repo=repo, stdin=content).decode().strip()
    pin_by_git(repo, run, name, blob)


def read_copy(repo: str, run: str, name: str) -> bytes:
    """The kept copy of a text; empty when there is none."""
    found = pinned_commits(repo, run).get(name)
    return git("cat-file", "blob", checked_sha(found), repo=repo) if found else b""


CREATE, MOVE, SAME = "create", "move", "same"
_HEADS = "refs/heads/"


class BranchChange(NamedTuple):
    """A branch, the commit that it is to have, the one that it has, and what is to be done: CREATE, MOVE or SAME."""

    name: str
    commit: str
    before: str
    kind: str


def users_name(folder: str) -> str:
    """The name and address that the user's commits have, as configured there."""
    found = []
    for key in ("user.name", "user.email"):
        value = users_git("config", "--default", "", key, cwd=folder).decode(errors="replace").strip()
        if not value:
            raise GitProblem(f"git has no {key} in {folder}; set it: git config {key} …")
        found.append(re.sub(r"[<>\n]", "", value))
    return f"{found[0]} <{found[1]}>"


def branch_changes(repo: str, wanted: Mapping[str, str], known: Mapping[str, str]) -> list[BranchChange]:
    """The changes that give each branch its commit.  `known`: what branches of ours were made as.

    Refuses a branch that somebody else made or changed, and to move one that is checked out."""
    listed = git("for-each-ref", "--format=%(objectname) %(refname)", _HEADS, repo=repo).decode().splitlines()
    there = {ref.removeprefix(_HEADS): commit for commit, ref in (line.split(" ", 1) for line in listed)}
    worktrees = git("worktree", "list", "--porcelain", repo=repo).decode(errors="replace").splitlines()
    changes = []
    for name, commit in wanted.items():
        git("check-ref-format", f"{_HEADS}{name}", repo=repo)
        before = there.get(name, "")
        if before not in ("", commit, known.get(name)):
            raise GitProblem(f"branch {name} is not ours, or was changed; give other names with --prefix")
        kind = SAME if before == commit else MOVE if before else CREATE
        if kind == MOVE and f"branch {_HEADS}{name}" in worktrees:
            raise GitProblem(f"branch {name} is checked out, and would move; check out another one")
        changes.append(BranchChange(name, commit, before, kind))
    return changes


def change_branches(own: str, repo: str, root: str, changes: Sequence[BranchChange]) -> None:
    """Copy the commits, which are in `own`, to `repo`, then change all branches at once.  No checkout is touched."""
    todo = [change for change in changes if change.kind != SAME]
    if not todo:
        return
    asked = "".join(f"{checked_sha(change.commit)}\n" for change in todo) + f"^{checked_sha(root)}\n"
    git(
        "unpack-objects",
        "-q",
        repo=repo,
        stdin=git("pack-objects", "--revs", "-q", "--stdout", repo=own, stdin=asked.encode()),
    )
    none = "0" * 40
    orders = (f"update {_HEADS}{each.name}\0{each.commit}\0{each.before or none}\0" for each in todo)
    git("update-ref", "-z", "--stdin", repo=repo, stdin="".join(orders).encode())
