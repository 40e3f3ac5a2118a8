"""How a command ended, or why it did not start, in words for people."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from pipeline.edge.process import Exit
from pipeline.errors import NO_ROOM

LATE = 124  # the exit status of what ran out of time, as of `timeout` in a shell
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_MISSING = (errno.ENOENT, errno.EACCES, errno.ENOTDIR)
# There is none, it may not be started, is none, or gets too many words.
UNSTARTED = (*_MISSING, errno.ENOEXEC, errno.E2BIG)
# So little is nothing: a file system may keep some of the last for itself.
_FULL = 64 * 1024
# Where commands write that ask for no other place.
_SCRATCH = "/tmp"


def verdict(ended: Exit, timeout: float | None) -> tuple[str, int]:
    """What went wrong, empty when nothing did; and the exit status as a shell has it."""
    if ended.timed_out:
        return f"timed out after {timeout:g} s", LATE
    if ended.code < 0:
        return f"killed by signal {-ended.code}", 128 - ended.code
    return f"exit status {ended.code}" if ended.code else "", ended.code


def unstarted(error: OSError, program: str) -> tuple[str, int]:
    """The same of one that did not start.  An error that is not about the program is raised again."""
    if error.errno not in UNSTARTED:
        raise error
    status = NOT_FOUND if error.errno in _MISSING else NOT_EXECUTABLE
    return f"cannot start '{program}': {error.strerror}", status


def unwritten(error: OSError) -> str:
    """What the system has refused, of which file; and where there is no room left, if that is why."""
    if not error.filename:
        return str(error)
    room = f"; {room_at(error.filename)}" if error.errno in NO_ROOM else ""
    return f"{error.filename}: {error.strerror}{room}"


def cramped(why: str, paths: Iterable[str]) -> str:
    """`why` something failed that wrote there, and that there was no room for it, if so: it may not have got to say
    that, since its log lies there too."""
    places = {_mount(path): path for path in (*paths, _SCRATCH)}
    said = any(os.strerror(number) in why for number in NO_ROOM)
    full = [path for path in places.values() if _left(path) < _FULL] or [*places.values()][: int(said)]
    return "; ".join([why, *map(room_at, full)])


def room_at(path: str) -> str:
    return f"the file system at {_mount(path)} has {_left(path) // 1024} kB left: make room there, and build again"


def _left(path: str) -> int:
    """In bytes; nothing where no more files can be made."""
    found = os.statvfs(_mount(path))
    return found.f_bavail * found.f_frsize if found.f_favail or not found.f_files else 0


def _mount(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.ismount(path):  # nor is what is not there
        path = os.path.dirname(path)
    return path
