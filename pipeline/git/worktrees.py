"""Worktrees by name: as a commit has it when asked for, whoever was killed while at work on them.

Git's own folder about each worktree is put there and taken away as a whole: see gitrepository-layout(5).  `.git` within
a worktree is never believed: a candidate may have put it there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from pipeline.git.command import TIMEOUT, GitProblem, checked_sha, git
from pipeline.git.folders import (
    delete_tree,
    file_lock,
    make_removable,
    read_file_text,
    remove_file,
    repository_lock,
    unseen_by_git,
)
from pipeline.store.files import write_all, write_whole
from pipeline.store.flock import LOCK_PATIENCE

_HEAD = re.compile(r"(ref: .+|[0-9a-f]{40})\n")
_PLAIN = re.compile(r"(?!.*\.lock$)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST = 100


def path_digest(path: str) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:20]


def admin_of(repo: str, path: str) -> str:
    """Empty when git knows no worktree there."""
    return next((place for place in _places(repo, path) if read_file_text(f"{place}/gitdir") == f"{path}/.git\n"), "")


def admin_is_complete(admin: str) -> bool:
    """All that git needs is there.  Its own lock is on those that it has only begun."""
    complete = _HEAD.fullmatch(read_file_text(f"{admin}/HEAD")) and read_file_text(f"{admin}/commondir")
    return bool(complete) and not os.path.exists(f"{admin}/locked")


def register_worktree(repo: str, path: str, commit: str) -> str:
    """An empty worktree at `path`, where nothing is.  `git worktree add` would look at all the others first."""
    with repository_lock(repo):
        _forget(repo, path)
        admin = next((place for place in _places(repo, path) if not _is_used(place)), "")
        if not admin:
            raise GitProblem(f"{path}: git's names for this worktree are taken by others")
        draft = _draft(repo, path)
        os.mkdir(draft)
        for name, text in (("HEAD", commit), ("commondir", "../.."), ("gitdir", f"{path}/.git")):
            write_all(f"{draft}/{name}", os.fsencode(f"{text}\n"))
        os.mkdir(path)
        write_all(f"{path}/.git", gitlink(admin))  # before git can see the rest: it prunes those without
        delete_tree(admin)
        os.makedirs(os.path.dirname(admin), exist_ok=True)
        os.rename(draft, admin)
    return admin


def gitlink(admin: str) -> bytes:
    """What stands in .git of a worktree."""
    return os.fsencode(f"gitdir: {admin}\n")


def forget_worktree(repo: str, path: str) -> None:
    with repository_lock(repo):
        _forget(repo, path)


def forget_lost_worktrees(repo: str) -> None:
    """Those whose files are gone, and those that a killed git had only begun, whatever lock is on them."""
    with repository_lock(repo):
        for admin in _all(repo):
            if not _is_used(admin):
                delete_tree(admin)


def _places(repo: str, path: str) -> list[str]:
    """Its name, unless git could not have it so; and one that no other path has, if that is taken."""
    name = os.path.basename(path)
    plain = [name] if len(name) <= _LONGEST and _PLAIN.fullmatch(name) else []
    return [f"{repo}/worktrees/{place}" for place in (*plain, path_digest(path))]


def _forget(repo: str, path: str) -> None:
    draft = _draft(repo, path)
    delete_tree(draft)  # of a process that was killed
    if admin := admin_of(repo, path):
        os.rename(admin, draft)
        delete_tree(draft)


def _is_used(admin: str) -> bool:
    told = read_file_text(f"{admin}/gitdir").removesuffix("\n")
    return bool(told) and os.path.lexists(os.path.join(admin, told))


def _all(repo: str) -> list[str]:
    folder = f"{repo}/worktrees"
    return [f"{folder}/{name}" for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _draft(repo: str, path: str) -> str:
    """Where git's folder is made, and unmade, so that git sees all of it or nothing."""
    return f"{repo}/coppice/{path_digest(path)}.admin"


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
                return self._anew(path, checked_sha(commit), mine)
            try:
                if not _is_clean(found, checked_sha(commit)):
                    _check_out(found, commit, mine)
            except GitProblem:  # what git keeps of it is damaged, by a power cut for one
                return self._anew(path, checked_sha(commit), mine)
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
        forget_lost_worktrees(self.repo)

    def _delete(self, path: str) -> None:
        delete_tree(path)
        forget_worktree(self.repo, path)

    def _anew(self, path: str, commit: str, mine: int) -> Worktree:
        delete_tree(path)
        os.makedirs(self.folder, exist_ok=True)
        made = Worktree(self.repo, path, register_worktree(self.repo, path, commit))
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
        with file_lock(f"{self.repo}/coppice/{path_digest(path)}.lock", TIMEOUT + LOCK_PATIENCE) as fd:
            yield fd

    def _found(self, path: str) -> Worktree | None:
        admin = admin_of(self.repo, path)
        return Worktree(self.repo, path, admin) if admin else None


def _sound(found: Worktree) -> bool:
    return admin_is_complete(found.admin) and os.path.isdir(found.path) and not os.path.islink(found.path)


def _is_clean(found: Worktree, commit: str) -> bool:
    if read_file_text(f"{found.admin}/HEAD") != f"{commit}\n" or not os.path.exists(f"{found.admin}/{PRISTINE}"):
        return False
    if not _points_back(found) or unseen_by_git(found.path):
        return False
    status = ["status", "--porcelain", "-z", "--no-renames", "--ignored", "--untracked-files=normal"]
    return not found.git(*status, "--ignore-submodules=all", index=f"{found.admin}/{PRISTINE}")


def _check_out(found: Worktree, commit: str, mine: int) -> None:
    pristine, index = f"{found.admin}/{PRISTINE}", f"{found.admin}/index"
    make_removable(found.path)
    if not _points_back(found):
        delete_tree(f"{found.path}/.git")
        write_whole(f"{found.path}/.git", gitlink(found.admin), durable=False)
    for unseen in unseen_by_git(found.path):
        delete_tree(unseen)
    for left in (index, f"{index}.lock", f"{found.admin}/HEAD.lock"):
        remove_file(left)
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
    return not os.path.islink(path) and os.fsencode(read_file_text(path)) == gitlink(found.admin)
