"""Git's own folder about each worktree, put there and taken away as a whole: see gitrepository-layout(5)."""

from __future__ import annotations

import os
import re
from hashlib import sha256

from pipeline.edge.files import write_all
from pipeline.edge.git.alone import alone_in
from pipeline.edge.git.command import GitProblem
from pipeline.edge.git.folders import delete, text_of

_HEAD = re.compile(r"(ref: .+|[0-9a-f]{40})\n")
_PLAIN = re.compile(r"(?!.*\.lock$)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST = 100


def digest(path: str) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:20]


def registered(repo: str, path: str) -> str:
    """Empty when git knows no worktree there."""
    return next((place for place in _places(repo, path) if text_of(f"{place}/gitdir") == f"{path}/.git\n"), "")


def is_complete(admin: str) -> bool:
    """All that git needs is there.  Its own lock is on those that it has only begun."""
    complete = _HEAD.fullmatch(text_of(f"{admin}/HEAD")) and text_of(f"{admin}/commondir")
    return bool(complete) and not os.path.exists(f"{admin}/locked")


def register(repo: str, path: str, commit: str) -> str:
    """An empty worktree at `path`, where nothing is.  `git worktree add` would look at all the others first."""
    with alone_in(repo):
        _forget(repo, path)
        admin = next((place for place in _places(repo, path) if not _is_used(place)), "")
        if not admin:
            raise GitProblem(f"{path}: git's names for this worktree are taken by others")
        draft = _draft(repo, path)
        os.mkdir(draft)
        for name, text in (("HEAD", commit), ("commondir", "../.."), ("gitdir", f"{path}/.git")):
            write_all(f"{draft}/{name}", os.fsencode(f"{text}\n"))
        os.mkdir(path)
        write_all(f"{path}/.git", pointer(admin))  # before git can see the rest: it prunes those without
        delete(admin)
        os.makedirs(os.path.dirname(admin), exist_ok=True)
        os.rename(draft, admin)
    return admin


def pointer(admin: str) -> bytes:
    """What stands in .git of a worktree."""
    return os.fsencode(f"gitdir: {admin}\n")


def forget(repo: str, path: str) -> None:
    with alone_in(repo):
        _forget(repo, path)


def forget_lost(repo: str) -> None:
    """Those whose files are gone, and those that a killed git had only begun, whatever lock is on them."""
    with alone_in(repo):
        for admin in _all(repo):
            if not _is_used(admin):
                delete(admin)


def _places(repo: str, path: str) -> list[str]:
    """Its name, unless git could not have it so; and one that no other path has, if that is taken."""
    name = os.path.basename(path)
    plain = [name] if len(name) <= _LONGEST and _PLAIN.fullmatch(name) else []
    return [f"{repo}/worktrees/{place}" for place in (*plain, digest(path))]


def _forget(repo: str, path: str) -> None:
    draft = _draft(repo, path)
    delete(draft)  # of a process that was killed
    if admin := registered(repo, path):
        os.rename(admin, draft)
        delete(draft)


def _is_used(admin: str) -> bool:
    told = text_of(f"{admin}/gitdir").removesuffix("\n")
    return bool(told) and os.path.lexists(os.path.join(admin, told))


def _all(repo: str) -> list[str]:
    folder = f"{repo}/worktrees"
    return [f"{folder}/{name}" for name in os.listdir(folder)] if os.path.isdir(folder) else []


def _draft(repo: str, path: str) -> str:
    """Where git's folder is made, and unmade, so that git sees all of it or nothing."""
    return f"{repo}/coppice/{digest(path)}.admin"
