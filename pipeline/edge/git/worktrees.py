"""Worktrees by name: as a commit has it when asked for, whoever was killed while at work on them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from pipeline.edge.files import write_whole
from pipeline.edge.git.alone import alone, alone_in
from pipeline.edge.git.command import GitProblem, git, sha
from pipeline.edge.git.folders import delete, open_folders, text_of, unlink, unseen_by_git

_HEAD = re.compile(r"(ref: .+|[0-9a-f]{40})\n")
# The index as it was when all files had just been written: git's own is in the hands of whoever works there.
PRISTINE = "coppice-index"


class Worktree(NamedTuple):
    """`admin` is git's folder about it.  `.git` within it is never believed: a candidate may have put it there."""

    repo: str
    path: str
    admin: str

    def git(self, *words: str, index: str = "", stdin: bytes = b"", keep: Sequence[int] = ()) -> bytes:
        return git(*words, repo=self.admin, work=self.path, index=index, stdin=stdin, keep=keep)


class Worktrees:
    """Those of `repo` below `folder`, one a name.  How many there are at once is the caller's."""

    def __init__(self, repo: str, folder: str) -> None:
        self.repo = os.path.realpath(repo)
        self.folder = os.path.realpath(folder)

    def add(self, name: str, commit: str) -> Worktree:
        """There, at that commit, with its files and no others.  Not touched when it is so already."""
        path = self._path(name)
        with self._alone(path) as mine:
            found = self._found(path)
            if found is None or not _sound(found):
                found = self._anew(path, sha(commit), mine)
            if not _is_clean(found, sha(commit)):
                _check_out(found, commit, mine)
            return found

    def at(self, name: str) -> Worktree:
        """As it is now, with whatever was left in it."""
        found = self._found(self._path(name))
        if found is None or not os.path.isdir(found.path):
            raise GitProblem(f"{self.folder}/{name}: is no worktree; it was removed, or never added")
        return found

    def remove(self, name: str) -> None:
        """Nothing to do when there is none."""
        path = self._path(name)
        with self._alone(path):
            delete(path)
            self.prune()

    def prune(self) -> None:
        """Git forgets the worktrees whose files are gone, and those that a killed process had only begun."""
        with alone_in(self.repo) as lock:
            self._prune(lock)

    def _prune(self, lock: int) -> None:
        """Nobody else adds any meanwhile: a lock that git put on a new one was left by a process that is dead."""
        for admin in self._admins():
            if not os.path.lexists(text_of(f"{admin}/gitdir").rstrip("\n") or admin + "/none"):
                unlink(f"{admin}/locked")
        git("worktree", "prune", "--expire=now", repo=self.repo, keep=[lock])

    def _anew(self, path: str, commit: str, mine: int) -> Worktree:
        delete(path)
        os.makedirs(self.folder, exist_ok=True)
        with alone_in(self.repo) as lock:
            self._prune(lock)
            begun = ["worktree", "add", "--quiet", "--no-checkout", "--detach", path, commit]
            git(*begun, repo=self.repo, keep=[lock, mine])
            found = self._found(path)
        if found is None:
            raise GitProblem(f"{path}: git has not registered the worktree")
        return found

    def _path(self, name: str) -> str:
        if name in ("", ".", "..") or not {"/", "\n", "\0"}.isdisjoint(name):
            raise GitProblem(f"{name!r} cannot name a worktree: it is a folder's name")
        return f"{self.folder}/{name}"

    @contextmanager
    def _alone(self, path: str) -> Iterator[int]:
        with alone(f"{self.repo}/coppice/{sha256(os.fsencode(path)).hexdigest()[:20]}.lock") as fd:
            yield fd

    def _admins(self) -> list[str]:
        folder = f"{self.repo}/worktrees"
        try:
            return [f"{folder}/{name}" for name in sorted(os.listdir(folder))]
        except FileNotFoundError:  # git takes it away with the last of them
            return []

    def _found(self, path: str) -> Worktree | None:
        for admin in self._admins():
            if text_of(f"{admin}/gitdir") == f"{path}/.git\n":
                return Worktree(self.repo, path, admin)
        return None


def _sound(found: Worktree) -> bool:
    """All that git needs is there.  Its lock is on those that it has only begun."""
    complete = _HEAD.fullmatch(text_of(f"{found.admin}/HEAD")) and text_of(f"{found.admin}/commondir")
    real = os.path.isdir(found.path) and not os.path.islink(found.path)
    return bool(complete) and real and not os.path.exists(f"{found.admin}/locked")


def _is_clean(found: Worktree, commit: str) -> bool:
    if text_of(f"{found.admin}/HEAD") != f"{commit}\n" or not os.path.exists(f"{found.admin}/{PRISTINE}"):
        return False
    if not _points_back(found) or unseen_by_git(found.path):
        return False
    status = ["status", "--porcelain", "-z", "--no-renames", "--ignored", "--untracked-files=normal"]
    return not found.git(*status, "--ignore-submodules=all", index=f"{found.admin}/{PRISTINE}")


def _check_out(found: Worktree, commit: str, mine: int) -> None:
    pristine, index = f"{found.admin}/{PRISTINE}", f"{found.admin}/index"
    open_folders(found.path)
    if not _points_back(found):
        delete(f"{found.path}/.git")
        write_whole(f"{found.path}/.git", os.fsencode(_pointer(found)), durable=False)
    for unseen in unseen_by_git(found.path):
        delete(unseen)
    for left in (index, f"{index}.lock", f"{found.admin}/HEAD.lock"):
        unlink(left)
    if os.path.exists(pristine):
        os.replace(pristine, index)
    found.git("update-ref", "--no-deref", "HEAD", commit, keep=[mine])
    found.git("reset", "--quiet", "--hard", commit, keep=[mine])
    found.git("clean", "--quiet", "-ffdx", keep=[mine])
    copy_index(index, f"{pristine}.new")
    os.replace(f"{pristine}.new", pristine)


def copy_index(index: str, copy: str) -> None:
    """With its time: git reads files that are not older than the index, to see whether they have changed."""
    shutil.copy2(index, copy)


def _points_back(found: Worktree) -> bool:
    pointer = f"{found.path}/.git"
    return not os.path.islink(pointer) and text_of(pointer) == _pointer(found)


def _pointer(found: Worktree) -> str:
    return f"gitdir: {found.admin}\n"
