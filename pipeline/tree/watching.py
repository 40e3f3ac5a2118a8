"""Watches what is protected around one command: from the root before it runs, as it was when it has ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pipeline.edge.confine import Confined, shields
from pipeline.edge.files import files_behind
from pipeline.edge.git.folders import delete
from pipeline.edge.git.home import lender
from pipeline.edge.git.objects import name_of
from pipeline.edge.git.trees import LINK, blobs
from pipeline.edge.job import Job, StageFailed
from pipeline.edge.state import signature
from pipeline.tree.protected import digests, protected_of
from pipeline.tree.touching import VOID, Entry, Protected, above, shown

_RUNNABLE = "100755"
# Of a file ctime, which cannot be set, and whatever else shows that it is another one; of a folder which one it is.
_Look = tuple[int, ...]


class Watch(NamedTuple):
    """`looks`: at what is protected in `folder`, the checkout, and at the folders it is in.  `reads`: at what the
    command is given to read.  `shield`: what keeps it from writing to the project, or empty.  `apart`: what it is kept
    from besides: the store, which may be elsewhere, and the objects that the run's repository borrows."""

    run: str
    protected: Protected
    folder: str
    looks: dict[str, _Look]
    reads: dict[str, int]
    shield: str
    apart: tuple[str, ...]


def watch(job: Job, repo: str, folder: str) -> Watch | None:
    """None when nothing is protected."""
    protected = protected_of(job)
    if protected is None:
        return None
    _check_project(job.target.run, protected)
    restore(protected, repo, folder)
    groups = (group for port, group in job.reads.items() if port.startswith("in."))
    reads = {file: signature(file) for group in groups for path in group for file in files_behind(path)}
    apart = tuple(filter(None, (job.store, lender(repo))))
    return Watch(job.target.run, protected, folder, dict(_looks(protected, folder)), reads, shields("."), apart)


def _check_project(run: str, protected: Protected) -> None:
    for path in _changed_in_project(protected):
        how = f"put it back; or `coppice forget {run}:protected` to go on with what is there now"
        raise StageFailed(f"{{project}}/{path} is protected, and is not as it was when {run} began: {how}", 2)


def _changed_in_project(protected: Protected) -> list[str]:
    if not protected.project:
        return []
    now = digests(protected.project)
    return [path for path, was in protected.project.items() if now[path] != was]


def restore(protected: Protected, repo: str, folder: str) -> None:
    """What is protected is the root's, whatever else is in the checkout."""
    wrong = {path: entry for path, entry in protected.files.items() if _entry(f"{folder}/{path}", entry) != entry}
    contents = blobs(repo, (entry[1] for entry in wrong.values())) if wrong else {}
    for path, (mode, blob) in wrong.items():
        if name_of(b"blob", contents[blob]) != blob:
            raise StageFailed(f"{repo}: the object {blob} of {shown(path)} is damaged; see `git fsck`", 1)
        _make_way(folder, path)
        if mode == LINK:
            os.symlink(contents[blob], os.fsencode(f"{folder}/{path}"))
        else:
            with open(f"{folder}/{path}", "xb") as file:
                file.write(contents[blob])
            os.chmod(file.name, 0o755 if mode == _RUNNABLE else 0o644)


def _entry(path: str, wanted: Entry) -> Entry | None:
    """As git would have it; None where it would have nothing, or gets there by a link."""
    try:
        mode = os.lstat(path).st_mode
        if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
            return None
        if stat.S_ISLNK(mode):
            return LINK, name_of(b"blob", os.readlink(os.fsencode(path)))
        if not stat.S_ISREG(mode) or wanted[0] == LINK:
            return None
        with open(path, "rb") as file:
            return _RUNNABLE if mode & 0o100 else "100644", name_of(b"blob", file.read())
    except OSError:
        return None


def _make_way(folder: str, path: str) -> None:
    for inner in sorted(above(path), key=len):
        on_the_way = f"{folder}/{inner}"
        if inner and (os.path.islink(on_the_way) or not os.path.isdir(on_the_way)):
            delete(on_the_way)
            os.mkdir(on_the_way)
    delete(f"{folder}/{path}")


def _looks(protected: Protected, folder: str) -> Iterator[tuple[str, _Look]]:
    for path in protected.files:
        yield path, _look(f"{folder}/{path}")
    for inner in sorted({inner for path in protected.files for inner in above(path)}):
        yield f"{inner}/", _look(f"{folder}/{inner}")


def _look(path: str) -> _Look:
    try:
        s = os.lstat(path)
    except OSError:
        return ()
    which = (s.st_mode, s.st_dev, s.st_ino)
    return which if stat.S_ISDIR(s.st_mode) else (*which, s.st_ctime_ns)


@contextmanager
def shielded(watch: Watch | None, folder: str, output: str, env: dict[str, str]) -> Iterator[Confined | None]:
    """The command may write to its checkout and its output; of what is not in the project it sees no difference.

    Only a temporary file cannot be made right in /tmp if one of them is below it: then there is another place."""
    if watch is None or not watch.shield:
        yield None
        return
    project, scratch = os.path.realpath("."), f"{output}.tmp"
    if "TMPDIR" not in env and any(_is_below(path, "/tmp") for path in (project, *watch.apart)):
        os.makedirs(scratch, exist_ok=True)
        env["TMPDIR"] = scratch
    try:
        writable = (folder, output, *([scratch] if os.path.isdir(scratch) else ()))
        yield Confined(writable, project, apart=watch.apart)
    finally:
        delete(scratch)


def _is_below(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(folder)}/")


def tampered(watch: Watch) -> str:
    """`void: …` when the command has changed what is protected, or what it was given to read."""
    found = _in_checkout(watch) or _elsewhere(watch)
    return f"{VOID}{found}" if found else ""


def _in_checkout(watch: Watch) -> str:
    for path, was in watch.looks.items():
        now = _look(f"{watch.folder}/{path.rstrip('/')}")
        if now != was:
            return f"{shown(path.rstrip('/') or 'the checkout')} is protected and {_how(now)} while the command ran"
    added = next((path for path in _matching(watch) if path not in watch.protected.files), "")
    return f"{shown(added)} was added while the command ran, where all is protected" if added else ""


def _how(now: _Look) -> str:
    if not now:
        return "was removed"
    return "was replaced by a symbolic link" if stat.S_ISLNK(now[0]) else "was written to"


def _matching(watch: Watch) -> Iterator[str]:
    """What is in the checkout now, except what Python compiles for itself."""
    for pattern in watch.protected.patterns:
        top = pattern if pattern not in watch.protected.files else os.path.dirname(pattern)
        while top and not os.path.isdir(f"{watch.folder}/{top}"):
            top = os.path.dirname(top)
        yield from (path for path in _below(watch.folder, top) if Protected("", (pattern,)).covers(path))


def _below(folder: str, top: str) -> Iterator[str]:
    for at, inner, names in os.walk(f"{folder}/{top}"):
        inner[:] = [name for name in inner if name not in (".git", "__pycache__")]
        here = os.path.relpath(at, folder)
        for name in (*names, *(name for name in inner if os.path.islink(f"{at}/{name}"))):
            yield name if here == "." else f"{here}/{name}"


def _elsewhere(watch: Watch) -> str:
    for path in _changed_in_project(watch.protected):
        return _blamed(watch, path, f"{{project}}/{path} is protected and")
    for path, was in watch.reads.items():
        if signature(path) != was:
            return _blamed(watch, path, f"{shown(path)}, which it was given to read,")
    return ""


def _blamed(watch: Watch, path: str, what: str) -> str:
    """Where the command could not have done it, somebody else has, and the candidate is not to blame."""
    if watch.shield and _is_below(path, "."):
        raise StageFailed(f"{what} was changed by something else while a command of {watch.run} ran; build again", 1)
    return f"{what} was changed while the command ran"
