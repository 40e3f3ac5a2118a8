"""Where a search starts: `repo:` becomes a commit in the run's own repository, and the user's stays as it is."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.edge.git.command import GitProblem
from pipeline.edge.git.home import home_of, kept, prepared
from pipeline.edge.git.objects import has, opened, tree_hash
from pipeline.edge.git.place import Place, check_attributes, check_clean, check_whole, place_of
from pipeline.edge.git.refs import is_pinned, pin, pin_by_git
from pipeline.edge.git.snapshot import snapshot

ROOT = "root"


class Root(NamedTuple):
    """`repo` is the git directory that everything else is done in."""

    repo: str
    commit: str
    tree: str


def root_of(path: str, run: str) -> Root:
    """HEAD of a git repository, which must be clean; otherwise the files of the folder as they are now."""
    place = place_of(path)
    repo, commit = _head(place, run) if place.folder == place.top else _files(place, run)
    pin(repo, run, ROOT, commit)
    return Root(repo, commit, tree_hash(repo, commit))


def reopened(path: str, run: str, commit: str) -> str:
    """The run's repository; made again from `path`, if it is gone, for as long as the commit can be found there."""
    repo = home_of(run)
    if not is_pinned(repo, run, ROOT):  # which is done last
        place = place_of(path)
        if place.folder == place.top:
            prepared(run, f"{place.common}/objects")
        else:
            _files(place, run)
        if not has(repo, commit):
            raise GitProblem(f"{path}: the commit {commit}, which run {run} started from, is gone; forget {run}:root")
        pin(repo, run, ROOT, commit)
    kept(repo)
    return repo


def _files(place: Place, run: str) -> tuple[str, str]:
    repo = prepared(run)
    return repo, snapshot(place, repo)


def _head(place: Place, run: str) -> tuple[str, str]:
    check_whole(place)
    commit = _commit(place)
    check_clean(place)
    # its objects are borrowed, so that it must not forget them: the one thing that is left in the user's repository
    pin_by_git(place.common, run, ROOT, commit)
    return prepared(run, f"{place.common}/objects"), commit


def _commit(place: Place) -> str:
    with opened(place.git_dir) as found:
        if not found.head.is_valid():
            raise GitProblem(f"{place.folder}: has no commit yet; a search starts from a commit")
        commit = found.head.commit
        for item in commit.tree.traverse(ignore_self=True):
            _check(place, item)
        return commit.hexsha


def _check(place: Place, item: object) -> None:
    from git import Blob, Submodule

    if isinstance(item, Submodule):
        raise GitProblem(f"{place.folder}/{item.path}: submodules are not supported; a candidate is one tree of files")
    if isinstance(item, Blob) and item.name == ".gitattributes":
        check_attributes(f"{place.folder}/{item.path}", item.data_stream.read())
