"""Pin a run's commits, and copies of its texts, as git refs; and make branches in the user's repository.

The copy of a text shows when the file is removed or cut."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from pipeline.git.command import GitProblem, checked_sha, git, users_git
from pipeline.git.objects import loose_commit
from pipeline.store.files import write_all
from pipeline.store.flock import file_lock
from pipeline.store.folders import remove_file

# Parts of a ref that git forbids and `quote` does not escape.
_FORBIDDEN = re.compile(r"^\.|\.(?=\.|lock$|$)|~")


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
        if os.path.exists(lock) and os.path.samefile(lock, draft):
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
