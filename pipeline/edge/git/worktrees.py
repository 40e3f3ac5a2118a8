"""Worktrees by name: as a commit has it when asked for, whoever was killed while at work on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pipeline.edge.files import write_whole
from pipeline.edge.git.alone import alone
from pipeline.edge.git.command import TIMEOUT, GitProblem, git, sha
from pipeline.edge.git.folders import delete, open_folders, text_of, unlink, unseen_by_git
from pipeline.edge.git.registry import digest, forget, forget_lost, is_complete, pointer, register, registered
from pipeline.edge.lock import PATIENCE

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
                return self._anew(path, sha(commit), mine)
            try:
                if not _is_clean(found, sha(commit)):
                    _check_out(found, commit, mine)
            except GitProblem:  # what git keeps of it is damaged, by a power cut for one
                return self._anew(path, sha(commit), mine)
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
            self._delete(path)

    def prune(self) -> None:
        """Git forgets the worktrees whose files are gone, and those that a killed process had only begun."""
        forget_lost(self.repo)

    def _delete(self, path: str) -> None:
        delete(path)
        forget(self.repo, path)

    def _anew(self, path: str, commit: str, mine: int) -> Worktree:
        delete(path)
        os.makedirs(self.folder, exist_ok=True)
        made = Worktree(self.repo, path, register(self.repo, path, commit))
        try:
            _write_files(made, commit, mine)
        except GitProblem as problem:
            self._delete(path)
            raise GitProblem(f"{path}: the worktree cannot be made: {problem}") from problem
        return made

    def _path(self, name: str) -> str:
        if name in ("", ".", "..") or not {"/", "\n", "\0"}.isdisjoint(name):
            raise GitProblem(f"{name!r} cannot name a worktree: it is a folder's name")
        return f"{self.folder}/{name}"

    @contextmanager
    def _alone(self, path: str) -> Iterator[int]:
        """A git that outlives its killed build keeps it until its checkout is done."""
        with alone(f"{self.repo}/coppice/{digest(path)}.lock", TIMEOUT + PATIENCE) as fd:
            yield fd

    def _found(self, path: str) -> Worktree | None:
        admin = registered(self.repo, path)
        return Worktree(self.repo, path, admin) if admin else None


def _sound(found: Worktree) -> bool:
    return is_complete(found.admin) and os.path.isdir(found.path) and not os.path.islink(found.path)


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
        write_whole(f"{found.path}/.git", pointer(found.admin), durable=False)
    for unseen in unseen_by_git(found.path):
        delete(unseen)
    for left in (index, f"{index}.lock", f"{found.admin}/HEAD.lock"):
        unlink(left)
    if os.path.exists(pristine):
        os.replace(pristine, index)
    write_whole(f"{found.admin}/HEAD", os.fsencode(f"{commit}\n"), durable=False)
    _write_files(found, commit, mine)
    found.git("clean", "--quiet", "-ffdx", keep=[mine])


def _write_files(found: Worktree, commit: str, mine: int) -> None:
    index = f"{found.admin}/index"
    found.git("reset", "--quiet", "--hard", commit, keep=[mine])
    copy_index(index, f"{found.admin}/{PRISTINE}.new")
    os.replace(f"{found.admin}/{PRISTINE}.new", f"{found.admin}/{PRISTINE}")


def copy_index(index: str, copy: str) -> None:
    """With its time: git reads files that are not older than the index, to see whether they have changed."""
    shutil.copy2(index, copy)


def _points_back(found: Worktree) -> bool:
    path = f"{found.path}/.git"
    return not os.path.islink(path) and os.fsencode(text_of(path)) == pointer(found.admin)
