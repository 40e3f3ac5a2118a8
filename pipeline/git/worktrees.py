"""Worktrees by name, each with the files of its commit, whatever process was killed at work on it.

States of a worktree: absent, complete, damaged (a killed process, a power cut, a candidate's own git commands).  `add`
leads from each of them to complete at its commit, `remove` to absent.  Git's folder about a worktree appears and
disappears as a whole: see gitrepository-layout(5).  `.git` inside a worktree is never trusted: a candidate may have put
it there.  For people it is git's link to that folder; for candidates it is a repository of their own,
of that commit alone."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from typing import NamedTuple

from pipeline.git.command import STATUS, TIMEOUT, GitOutage, GitProblem, checked_sha, git, repository_lock
from pipeline.git.objects import commit_text, copy_index, object_name, tree_hash, write_object
from pipeline.git.repository import LENDER, SET_UP, alternates_line
from pipeline.store.files import write_all, write_whole
from pipeline.store.flock import LOCK_PATIENCE, file_lock
from pipeline.store.folders import (
    delete_tree,
    disarm_repository,
    make_removable,
    read_file_text,
    remove_file,
    walk_folders,
)

_HEAD = re.compile(r"(ref: .+|[0-9a-f]{40})\n")
_PLAIN = re.compile(r"(?!.*\.lock$)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST = 100


def path_digest(path: str) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:20]


def git_folder_of(repo: str, path: str) -> str:
    """Git's folder about the worktree at `path`; empty when git knows none there."""
    return next((place for place in _admins(repo, path) if read_file_text(f"{place}/gitdir") == f"{path}/.git\n"), "")


def register_worktree(repo: str, path: str, commit: str, linked: bool = True) -> str:
    """Register an empty worktree at `path`, where nothing is.  `git worktree add` would read all the others first."""
    with repository_lock(repo):
        _forget(repo, path)
        admin = next((place for place in _admins(repo, path) if not _is_used(place)), "")
        if not admin:
            raise GitProblem(f"{path}: git's names for this worktree are taken by others")
        draft = _draft(repo, path)
        os.mkdir(draft)
        for name, text in (("HEAD", commit), ("commondir", "../.."), ("gitdir", f"{path}/.git")):
            write_all(f"{draft}/{name}", os.fsencode(f"{text}\n"))
        os.mkdir(path)
        if linked:  # before git can see the rest: it prunes those without .git
            write_all(f"{path}/.git", gitlink(admin))
        else:
            os.mkdir(f"{path}/.git")
        delete_tree(admin)
        os.makedirs(os.path.dirname(admin), exist_ok=True)
        os.rename(draft, admin)
    return admin


def gitlink(admin: str) -> bytes:
    """The content of .git in a worktree."""
    return os.fsencode(f"gitdir: {admin}\n")


def _admins(repo: str, path: str) -> list[str]:
    """Names for git's folder: the worktree's own if git allows it, and one that no other path has."""
    name = os.path.basename(path)
    plain = [name] if len(name) <= _LONGEST and _PLAIN.fullmatch(name) else []
    return [f"{repo}/worktrees/{place}" for place in (*plain, path_digest(path))]


def _forget(repo: str, path: str) -> None:
    draft = _draft(repo, path)
    delete_tree(draft)  # of a process that was killed
    if admin := git_folder_of(repo, path):
        os.rename(admin, draft)
        delete_tree(draft)


def _is_used(admin: str) -> bool:
    gitdir = read_file_text(f"{admin}/gitdir").removesuffix("\n")
    return bool(gitdir) and os.path.lexists(os.path.join(admin, gitdir))


def _draft(repo: str, path: str) -> str:
    """The folder in which git's folder is made and removed, so that git sees all of it or nothing."""
    return f"{repo}/coppice/{path_digest(path)}.admin"


def _unseen_by_git(path: str) -> list[str]:
    """Folders that git neither shows nor cleans: empty, unreadable or too deep ones, .git beside tracked files."""
    found: list[str] = []
    for folder, inner, names, is_deepest in walk_folders(path, lambda error: found.append(error.filename)):
        if folder == path:
            inner[:] = [name for name in inner if name != ".git"]
        if not inner and not names:
            found.append(folder)
        if is_deepest:
            found.append(f"{path}/{os.path.relpath(folder, path).split('/')[0]}")
        if folder != path and ".git" in (*inner, *names):
            found.append(f"{folder}/.git")
            inner[:] = [name for name in inner if name != ".git"]
    return found


# The index from when all files had just been written: git's own can be changed by any program there.
PRISTINE = "coppice-index"


class Worktree(NamedTuple):
    """A worktree; `admin` is git's folder about it.

    `start`: of a candidate's, the tree whose files its own repository borrows; empty for one that git links."""

    repo: str
    path: str
    admin: str
    start: str = ""

    @property
    def lender(self) -> str:
        """The folder that must be visible for git to work there; empty when none need be."""
        return lending_folder(self.repo, self.start) if self.start else ""

    def git(self, *words: str, index: str = "", stdin: bytes = b"", keep: Sequence[int] = ()) -> bytes:
        return git(*words, repo=self.admin, work=self.path, index=index, stdin=stdin, keep=keep)


class Worktrees:
    """The worktrees of `repo` below `folder`, one a name.

    `start`: each has a repository of its own, for candidates, which borrows the files of this tree."""

    def __init__(self, repo: str, folder: str, start: str = "") -> None:
        self.repo = os.path.realpath(repo)
        self.folder = os.path.realpath(folder)
        self.start = start

    def add(self, name: str, commit: str) -> Worktree:
        """Add a worktree, or make it that of the commit, with its files and no others; untouched when it is so."""
        path, commit = self._path(name), checked_sha(commit)
        with self._lock(path) as lock:
            found = self._find(path)
            if found and _is_complete(found):
                with suppress(GitProblem):  # git's own files are damaged, for instance by a power cut
                    if not _is_clean(found, commit):
                        _check_out(found, commit, lock)
                    self._place_repository(found, commit, lock)
                    return found
            return self._make(path, commit, lock)

    def require(self, name: str) -> Worktree:
        """The worktree of a name as it is now; an error when there is none."""
        found = self._find(self._path(name))
        if found is None or not os.path.isdir(found.path):
            raise GitProblem(f"{self.folder}/{name}: is no worktree; it was removed, or never added")
        return found

    def release(self, name: str) -> None:
        """Leave a worktree to people: with git's link to our repository, and none of whoever worked there."""
        path = self._path(name)
        with self._lock(path):
            if (found := self._find(path)) and os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                make_removable(path, look=disarm_repository)
                write_whole(f"{path}/.git", gitlink(found.admin), durable=False)

    def remove(self, name: str) -> None:
        """Remove a worktree, if there is one."""
        path = self._path(name)
        with self._lock(path):
            self._delete(path)

    def _delete(self, path: str) -> None:
        delete_tree(path)
        delete_tree(self._inner_draft(path))
        with repository_lock(self.repo):
            _forget(self.repo, path)

    def _inner_draft(self, path: str) -> str:
        return f"{self.repo}/coppice/{path_digest(path)}.git"

    def _place_repository(self, tree: Worktree, commit: str, lock: int) -> None:
        if self.start:
            pristine, draft = f"{tree.admin}/{PRISTINE}", self._inner_draft(tree.path)
            place_repository(self.repo, tree.path, commit, pristine, draft, self.start, lock)

    def _make(self, path: str, commit: str, lock: int) -> Worktree:
        delete_tree(path)
        os.makedirs(self.folder, exist_ok=True)
        admin = register_worktree(self.repo, path, commit, linked=not self.start)
        made = Worktree(self.repo, path, admin, self.start)
        try:
            _write_files(made, commit, lock)
            self._place_repository(made, commit, lock)
        except GitOutage:
            self._delete(path)
            raise
        except GitProblem as problem:
            self._delete(path)
            raise GitProblem(f"{path}: the worktree cannot be made: {problem}") from problem
        return made

    def _path(self, name: str) -> str:
        if name in ("", ".", "..") or not {"/", "\n", "\0"}.isdisjoint(name):
            raise GitProblem(f"{name!r} cannot name a worktree: it is a folder's name")
        return f"{self.folder}/{name}"

    def _lock(self, path: str) -> AbstractContextManager[int]:
        """Hold the lock of a worktree; a git that outlives its killed build keeps it until its checkout is done."""
        return file_lock(f"{self.repo}/coppice/{path_digest(path)}.lock", TIMEOUT + LOCK_PATIENCE)

    def _find(self, path: str) -> Worktree | None:
        admin = git_folder_of(self.repo, path)
        return Worktree(self.repo, path, admin, self.start) if admin else None


def _is_complete(tree: Worktree) -> bool:
    """True when git's folder has all that git needs, without the lock of one that git has only begun."""
    head, common = (read_file_text(f"{tree.admin}/{name}") for name in ("HEAD", "commondir"))
    if not _HEAD.fullmatch(head) or not common or os.path.exists(f"{tree.admin}/locked"):
        return False
    return os.path.isdir(tree.path) and not os.path.islink(tree.path)


def _is_clean(tree: Worktree, commit: str) -> bool:
    if read_file_text(f"{tree.admin}/HEAD") != f"{commit}\n" or not os.path.exists(f"{tree.admin}/{PRISTINE}"):
        return False
    if not _points_back(tree) or _unseen_by_git(tree.path):
        return False
    return not tree.git(*STATUS, "--ignored", "--untracked-files=normal", index=f"{tree.admin}/{PRISTINE}")


def _check_out(tree: Worktree, commit: str, lock: int) -> None:
    pristine, index = f"{tree.admin}/{PRISTINE}", f"{tree.admin}/index"
    make_removable(tree.path)
    if not _points_back(tree):
        delete_tree(f"{tree.path}/.git")
        write_whole(f"{tree.path}/.git", gitlink(tree.admin), durable=False)
    for unseen in _unseen_by_git(tree.path):
        delete_tree(unseen)
    for left in (index, f"{index}.lock", f"{tree.admin}/HEAD.lock"):
        remove_file(left)
    if os.path.exists(pristine):
        os.replace(pristine, index)
    write_whole(f"{tree.admin}/HEAD", os.fsencode(f"{commit}\n"), durable=False)
    _write_files(tree, commit, lock)
    tree.git("clean", "--quiet", "-ffdx", keep=[lock])


def _write_files(tree: Worktree, commit: str, lock: int) -> None:
    index = f"{tree.admin}/index"
    tree.git("reset", "--quiet", "--hard", commit, keep=[lock])
    copy_index(index, f"{tree.admin}/{PRISTINE}.new")
    os.replace(f"{tree.admin}/{PRISTINE}.new", f"{tree.admin}/{PRISTINE}")


def _points_back(tree: Worktree) -> bool:
    """Check git's link in a worktree.  A repository in its place is made anew whatever it is."""
    if tree.start:
        return True
    path = f"{tree.path}/.git"
    return not os.path.islink(path) and os.fsencode(read_file_text(path)) == gitlink(tree.admin)


# --- The repository that a candidate finds in its checkout: its commit alone, without history, remotes or hooks.
#
# `.git` there is a folder of its own: git works in it with nothing of ours in reach, and whatever is done in it
# reaches nobody.  We never read it.  It appears as a whole, so after a kill it is there or not, and each use of a
# checkout makes it anew.  The files of the start, which most of a candidate is, are lent by one folder of a run, to be
# read only.
_INNER_SET_UP = {**SET_UP, "config": SET_UP["config"].replace(b"bare = true", b"bare = false")}
_PACKING = ("pack-objects", "--quiet", "--revs", "--non-empty", "--window=0")


def lending_folder(repo: str, tree: str) -> str:
    """The folder of objects that has the files of a start, named by their tree."""
    return f"{repo}/coppice/lent/{tree}"


def lend_files(repo: str, tree: str) -> str:
    """Make the folder that lends the files of a start, if it is not there, and return it.

    It has the objects of this tree and no others: those of the user's repository would be all that was ever there."""
    folder = lending_folder(repo, tree)
    if os.path.isdir(folder):
        return folder
    with file_lock(f"{repo}/coppice/lent.lock", TIMEOUT + LOCK_PATIENCE) as lock:
        if not os.path.isdir(folder):
            delete_tree(os.path.dirname(folder))  # of another start, or of a process that was killed
            os.makedirs(f"{folder}.draft/pack")
            words, settings = (*_PACKING, f"{folder}.draft/pack/pack"), {"pack.compression": "1"}
            git(*words, repo=repo, stdin=f"{tree}\n".encode(), keep=[lock], settings=settings)
            os.rename(f"{folder}.draft", folder)
    return folder


def place_repository(repo: str, path: str, commit: str, index: str, draft: str, start: str, lock: int) -> None:
    """Put a new repository of a commit into a checkout, in place of whatever `.git` is there.

    `start`: the tree whose files are lent; `index`: of the files as they were written; `draft`: a path to make it."""
    text = commit_text(repo, commit)
    if object_name(b"commit", text) != commit:
        raise GitProblem(f"{repo}: commit {commit} is damaged")
    delete_tree(draft)  # of a process that was killed
    for name in ("objects/info", "objects/pack", "refs", "info"):
        os.makedirs(f"{draft}/{name}")
    files = {**_INNER_SET_UP, "HEAD": f"{commit}\n".encode(), LENDER: alternates_line(lend_files(repo, start))}
    if b"\nparent " in text.partition(b"\n\n")[0]:
        files["shallow"] = files["HEAD"]
    for name, content in files.items():
        write_all(f"{draft}/{name}", content)
    write_object(draft, b"commit", text)
    _pack_changes(repo, tree_hash(repo, commit), start, f"{draft}/objects/pack/pack", lock)
    copy_index(index, f"{draft}/index")
    delete_tree(f"{path}/.git")
    os.rename(draft, f"{path}/.git")


def _pack_changes(repo: str, tree: str, start: str, pack: str, lock: int) -> None:
    """Pack what a tree has beyond the start's.  A power cut may take it: it is made again."""
    if tree != start:
        asked = f"{tree}\n^{start}\n".encode()
        git(*_PACKING, pack, repo=repo, stdin=asked, keep=[lock], settings={"core.fsync": "none"})
