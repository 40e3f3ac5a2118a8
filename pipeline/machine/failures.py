"""Describe a failure, and tell a candidate's failure from an outage or a full disk.

A candidate's failure is a result.  An outage is nobody's: it fails the target, is never stored, and is tried again."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import NamedTuple

from pipeline.errors import NO_ROOM
from pipeline.machine.process import Exit

LATE_STATUS = 124  # the exit status of what ran out of time, as of `timeout` in a shell
NOT_FOUND, NOT_EXECUTABLE = 127, 126
NOT_NOW = 75  # "try again later", as sysexits.h has it
_MISSING = (errno.ENOENT, errno.EACCES, errno.ENOTDIR)
# There is none, it may not be started, is none, or gets too many words.
START_ERRORS = (*_MISSING, errno.ENOEXEC, errno.E2BIG)
# So little is nothing: a file system may keep some of the last for itself.
_FULL = 64 * 1024
_LOOK_EVERY = 0.1  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Where commands write that ask for no other place.
_SCRATCH = "/tmp"


def describe_exit(ended: Exit, timeout: float | None) -> tuple[str, int]:
    """Describe what went wrong, empty when nothing did; with the exit status as a shell has it."""
    if ended.timed_out:
        return f"timed out after {timeout:g} s", LATE_STATUS
    if ended.limit or ended.fault:
        why = f"limit: {ended.limit}" if ended.limit else ended.fault
        return why, ended.code if ended.code > 0 else 128 - ended.code
    if ended.code < 0:
        return f"killed by signal {-ended.code}", 128 - ended.code
    return f"exit status {ended.code}" if ended.code else "", ended.code


def describe_start_failure(error: OSError, program: str) -> tuple[str, int]:
    """Describe why a command did not start.  An error that is not about the program is raised again."""
    if error.errno not in START_ERRORS:
        raise error
    status = NOT_FOUND if error.errno in _MISSING else NOT_EXECUTABLE
    return f"cannot start '{program}': {error.strerror}", status


def describe_unwritten(error: OSError) -> str:
    """Describe what the system refused for which file, and how full the disk is if that is the cause."""
    if not error.filename:
        return str(error)
    room = f"; {describe_room(error.filename)}" if error.errno in NO_ROOM else ""
    return f"{error.filename}: {error.strerror}{room}"


def full_disk(paths: Iterable[str], scratch: bool = True) -> str:
    """Describe a full disk among those that are written to, by a command also for `scratch`; empty if none is."""
    places = (*paths, _SCRATCH) if scratch else paths
    return next((describe_room(path) for path in places if _is_full(path)), "")


@contextmanager
def lacking_room() -> Iterator[None]:
    """Let a log lack what there is no room for: what it tells of was paid, and must not be lost with it."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise


@contextmanager
def watch_room(paths: Sequence[str]) -> Iterator[list[str]]:
    """Look at the disks that are written to while the block works; the list gets the description of a full one.

    What fails for want of room may end when there is room again."""
    found: list[str] = []
    over = Event()

    def look() -> None:
        while not found and not over.wait(_LOOK_EVERY):
            found.extend(filter(None, [full_disk(paths)]))

    watch = Thread(target=look, daemon=True)
    watch.start()
    try:
        yield found
    finally:
        over.set()
        watch.join()
        found.extend(filter(None, [] if found else [full_disk(paths)]))


# Of a disk with less room than this nobody's command is to blame; nor who took less than half of what there was.
LEAST_ROOM, LARGEST_SHARE = 64 << 20, 0.5


class DiskUse:
    """Room on the disks of folders before a command, to tell one that fills a disk from one that found it full."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = {folder: os.stat(folder).st_dev for folder in folders}
        self._free = {device: (_free_bytes(folder) or 0, folder) for folder, device in self._folders.items()}

    def filled(self) -> str:
        """Words on what it took of a disk that is full of its own files; empty if it did not fill one.

        To be asked while its files are there."""
        for device, (free, folder) in self._free.items():
            own = sum(folder_bytes(each) for each, of in self._folders.items() if of == device)
            if free >= LEAST_ROOM and own >= LARGEST_SHARE * free:
                place = _mount_point(folder)
                return f"it wrote {own >> 20} MB where {free >> 20} MB were free, and filled the file system at {place}"
        return ""


def folder_bytes(folder: str) -> int:
    """Bytes on the disk below a folder, a page at least for each file."""
    total, left = 0, [folder]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    total += max(_PAGE, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
    return total


def with_full_disk(why: str, paths: Iterable[str]) -> str:
    """Add to `why` that a disk written to is full, if so: the command may have had no room to say it in its log."""
    places = {_mount_point(path): path for path in (*paths, _SCRATCH)}
    said = any(os.strerror(number) in why for number in NO_ROOM)
    full = [path for path in places.values() if _is_full(path)] or [*places.values()][: int(said)]
    return "; ".join([why, *map(describe_room, full)])


def describe_room(path: str) -> str:
    free = _free_bytes(path)
    room = "no room" if free is None else f"{free // 1024} kB"
    return f"the file system at {_mount_point(path)} has {room} left: make room there, and build again"


def _is_full(path: str) -> bool:
    free = _free_bytes(path)
    return free is not None and free < _FULL


def _free_bytes(path: str) -> int | None:
    """Free bytes; 0 where no more files can be made, None where the file system tells no sizes.

    Of a path that is not there, what its folder has.  Asked often: the mount point need not be known."""
    try:
        found = os.statvfs(path)
    except OSError:
        if path == "/":
            raise
        return _free_bytes(os.path.dirname(os.path.realpath(path)))
    if not found.f_blocks:
        return None
    return found.f_bavail * found.f_frsize if found.f_favail or not found.f_files else 0


def _mount_point(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.ismount(path):  # nor is what is not there
        path = os.path.dirname(path)
    return path


class Outage(NamedTuple):
    """An outage: what is out, and why one thinks so."""

    kind: str
    why: str


# Sent by who wants room or an end: the kernel for want of memory, a machine that goes down, a person.  What a program
# does wrong itself ends it by others: SEGV, ABRT, FPE, BUS, ILL.
FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM})


def signal_of(ended: Exit) -> int:
    """Signal that ended it, or what its shell had run; 0 if none did."""
    return -ended.code if ended.code < 0 else ended.code - 128 if 128 < ended.code < 128 + signal.NSIG else 0


def find_outage(ended: Exit, asked: bool = False, missing: bool = False) -> Outage | None:
    """The outage that shows in how a program ended; None where that is the candidate's own.

    `asked`: it was a role that gives an answer, otherwise a command that measures the candidate.  `missing`: there is
    no such program as the spec names.  Without a cage it never began, and so cost nothing."""
    if missing:
        return Outage("missing", "the program is not there")
    if ended.fault:
        return Outage("missing", ended.fault)
    if ended.limit:
        return None
    if ended.timed_out:
        return Outage("time-out", "there was no answer in time") if asked else None
    if signal_of(ended) in FROM_OUTSIDE:
        return Outage("killed", "it was killed from outside, as for want of memory")
    if asked and ended.code in (NOT_FOUND, NOT_EXECUTABLE):
        return Outage("missing", "what it was to start cannot be started")
    return None
