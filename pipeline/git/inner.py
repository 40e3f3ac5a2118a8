"""The repository that a candidate finds in its checkout: its commit alone, without history, remotes or hooks.

`.git` there is a folder of its own: git works in it with nothing of ours in reach, and whatever is done in it reaches
nobody.  We never read it.  It appears as a whole, so after a kill it is there or not, and each use of a checkout makes
it anew.  The files of the start, which most of a candidate is, are lent by one folder of a run, to be read only."""

from __future__ import annotations

import os

from pipeline.git.command import TIMEOUT, GitProblem, git
from pipeline.git.objects import commit_text, copy_index, object_name, tree_hash, write_object
from pipeline.git.repository import LENDER, SET_UP, alternates_line
from pipeline.store.files import write_all
from pipeline.store.flock import LOCK_PATIENCE, file_lock
from pipeline.store.folders import delete_tree

_SET_UP = {**SET_UP, "config": SET_UP["config"].replace(b"bare = true", b"bare = false")}
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
    files = {**_SET_UP, "HEAD": f"{commit}\n".encode(), LENDER: alternates_line(lend_files(repo, start))}
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
