"""The files of a folder as a commit that is the same on every machine.

The rule: every file and link that no .gitignore of the folder ignores (nor one above it, inside a repository), and what
the repository around it tracks all the same; the files of repositories that lie in it too.  Never .git, __pycache__,
nor runs/.  Of a file's mode only "its owner may run it" is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from pipeline.edge.git.command import GitProblem, git, names
from pipeline.edge.git.objects import EPOCH, write_commit
from pipeline.edge.git.place import Place, check_attributes

_MESSAGE = "The files that the search starts from"
_OTHERS = ("ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
_LEFT_OUT = {".git", "__pycache__"}


def snapshot(place: Place, repo: str) -> str:
    """The commit, now in `repo`."""
    found = sorted(set(_wanted(place, repo)))
    if not found:
        raise GitProblem(f"{place.folder}: holds no files that are not ignored")
    listed = b"".join(b"%b\0" % os.fsencode(name) for name in found)
    with TemporaryDirectory(dir=repo) as scratch:
        index = f"{scratch}/index"
        git("update-index", "--add", "-z", "--stdin", repo=repo, work=place.folder, index=index, stdin=listed)
        tree = git("write-tree", repo=repo, index=index).decode().strip()
    return write_commit(repo, tree, (), EPOCH, _MESSAGE)


def _wanted(place: Place, repo: str) -> Iterator[str]:
    own = os.path.relpath(os.path.realpath("runs"), place.folder)
    for name in _tracked(place) or _others(place.folder, repo):
        if _LEFT_OUT.isdisjoint(name.split("/")) and not name.startswith(("runs/", f"{own}/")):
            if os.path.basename(name) == ".gitattributes":
                _check(f"{place.folder}/{name}")
            yield name


def _check(path: str) -> None:
    with open(path, "rb") as file:
        check_attributes(path, file.read())


def _tracked(place: Place) -> list[str]:
    """Of a folder inside a repository.  Nothing when all of it is ignored there: then it is as good as a plain one."""
    if not place.git_dir:
        return []
    listed = git(*_OTHERS, "--cached", repo=place.git_dir, work=place.top, cwd=place.folder)
    return [file for name in names(listed) for file in _below(place.folder, name, place.git_dir)]


def _below(folder: str, name: str, repo: str) -> Iterator[str]:
    path = f"{folder}/{name}"
    if name.endswith("/"):
        yield from (f"{name}{inner}" for inner in _others(path, repo))
    elif os.path.isdir(path) and not os.path.islink(path):
        raise GitProblem(f"{path}: submodules are not supported; a candidate is one tree of files")
    elif os.path.lexists(path):
        yield name


def _others(folder: str, repo: str) -> Iterator[str]:
    """All files that are not ignored.  Git lists a repository within as a name with a slash at its end."""
    with TemporaryDirectory() as scratch:
        listed = git(*_OTHERS, repo=repo, work=folder, index=f"{scratch}/none")
    for name in names(listed):
        yield from _below(folder, name, repo)
