"""Files that hold what is held out: hidden from the search's commands where the kernel can, and with a tripwire.

Where nothing hides a file, its time of access is set to 0 before a command starts.  Mounts that keep it at all
(relatime) move it with the first read; whoever sets it back moves ctime, which nobody can set.  Commands that run at
the same time are all blamed: which of them it was does not show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Lock

from pipeline.edge.confine import Confined, abi
from pipeline.edge.files import files_behind
from pipeline.edge.job import Job
from pipeline.tree.touching import VOID

Wire = dict[str, int]  # path -> ctime

_ARMING = Lock()


def sealed_of(job: Job) -> list[str]:
    return [os.path.abspath(path) for path in job.target.params.get("limits", {}).get("sealed", ())]


def hiding(confined: Confined | None, paths: Iterable[str]) -> Confined | None:
    """Besides what else a command is kept from."""
    there = tuple(path for path in paths if os.path.exists(path))
    if not there or not abi():
        return confined
    return (confined or Confined())._replace(unreadable=there)


def armed(paths: Iterable[str], hidden: bool) -> Wire:
    """`hidden`: commands cannot read it, so that whoever does is none of them."""
    return dict(_armed(paths, hidden))


def _armed(paths: Iterable[str], hidden: bool) -> Iterator[tuple[str, int]]:
    with _ARMING:
        for path in (file for each in paths for file in files_behind(each)):
            status = os.stat(path)
            if status.st_atime_ns and not hidden:
                try:
                    os.utime(path, ns=(0, status.st_mtime_ns))
                except PermissionError:  # somebody else's file, on which there can be no wire
                    continue
                status = os.stat(path)
            yield path, status.st_ctime_ns


def sprung(wire: Wire, hidden: bool) -> str:
    """`void: …` when something has been read, or its times were set."""
    for path, ctime in wire.items():
        status = _status(path)
        if status is None or (status.st_atime_ns and not hidden) or status.st_ctime_ns != ctime:
            what = "touched" if hidden else "read"
            return f"{VOID}the sealed holdout was {what} while it ran ({os.path.relpath(path)})"
    return ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
