"""Describe a failure, and tell a candidate's failure from an outage or a full disk.

A candidate's failure is a result.  An outage is nobody's: it fails the target, is never stored, and is tried again."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable, Iterable
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
# Where commands write that ask for no other place.
_SCRATCH = "/tmp"


def describe_exit(ended: Exit, timeout: float | None) -> tuple[str, int]:
    """Describe what went wrong, empty when nothing did; with the exit status as a shell has it."""
    if ended.timed_out:
        return f"timed out after {timeout:g} s", LATE_STATUS
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


def full_disk(paths: Iterable[str]) -> str:
    """Describe a full disk among those that are written to; empty if none is."""
    return next((describe_room(path) for path in (*paths, _SCRATCH) if _free_bytes(path) < _FULL), "")


def with_full_disk(why: str, paths: Iterable[str]) -> str:
    """Add to `why` that a disk written to is full, if so: the command may have had no room to say it in its log."""
    places = {_mount_point(path): path for path in (*paths, _SCRATCH)}
    said = any(os.strerror(number) in why for number in NO_ROOM)
    full = [path for path in places.values() if _free_bytes(path) < _FULL] or [*places.values()][: int(said)]
    return "; ".join([why, *map(describe_room, full)])


def describe_room(path: str) -> str:
    free = _free_bytes(path) // 1024
    return f"the file system at {_mount_point(path)} has {free} kB left: make room there, and build again"


def _free_bytes(path: str) -> int:
    """Free bytes; 0 where no more files can be made."""
    found = os.statvfs(_mount_point(path))
    return found.f_bavail * found.f_frsize if found.f_favail or not found.f_files else 0


def _mount_point(path: str) -> str:
    path = os.path.realpath(path)
    while not os.path.ismount(path):  # nor is what is not there
        path = os.path.dirname(path)
    return path


class FailureFacts(NamedTuple):
    """Facts about a failure while something worked for a candidate."""

    ended: Exit = Exit(0)
    asked: bool = False  # it was a role that gives an answer; otherwise a command that measures the candidate
    missing: bool = False  # there is no such program as the spec names
    status: int | None = None  # of HTTP, where a server or a tool gives one; 0 for no connection
    garbled: bool = False  # the answer does not follow the protocol
    said: str = ""  # the tool's own message, if it blames its service


# Sent by who wants room or an end: the kernel for want of memory, a machine that goes down, a person.  What a program
# does wrong itself ends it by others: SEGV, ABRT, FPE, BUS, ILL.
FROM_OUTSIDE = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM})
# No connection, no login, no credit, a model that is not there, too many at once; from 500 on it is the server's fault.
_OF_THE_SERVICE = frozenset({0, 401, 402, 403, 404, 407, 408, 425, 429})
_SERVICE = re.compile(
    r"rate.?limit|usage.limit|too many requests|overloaded|credit|quota|billing|insufficient (?:funds|balance)"
    r"|api.?key|authenticat|unauthori[sz]ed|permission_error|/login|log ?in\b|logged in|oauth"
    r"|connect|network|ECONN|ENOTFOUND|ETIMEDOUT|timed? ?out"
    r"|(?:internal )?server.error|bad gateway|service unavailable|api_error\b",
    re.IGNORECASE,
)


def signal_of(ended: Exit) -> int:
    """Signal that ended it, or what its shell had run; 0 if none did."""
    return -ended.code if ended.code < 0 else ended.code - 128 if 128 < ended.code < 128 + signal.NSIG else 0


# Each with what it says, in the order in which they are looked at.
_OUTAGES: tuple[tuple[Callable[[FailureFacts], bool], str], ...] = (
    (lambda it: it.missing, "the program is not there"),
    (
        lambda it: not it.ended.timed_out and signal_of(it.ended) in FROM_OUTSIDE,
        "it was killed from outside, as for want of memory",
    ),
    (lambda it: it.asked and it.ended.timed_out, "there was no answer in time"),
    (lambda it: it.asked and it.ended.code in (NOT_FOUND, NOT_EXECUTABLE), "what it was to start cannot be started"),
    (lambda it: it.asked and it.ended.code == NOT_NOW, "it says that it cannot work now"),
    (lambda it: it.status is not None and (it.status in _OF_THE_SERVICE or it.status >= 500), "the service refuses"),
    (lambda it: it.garbled, "what came back is no answer of the service"),
    (lambda it: _SERVICE.search(it.said) is not None, "the service refuses"),
)


def outage_reason(failure: FailureFacts) -> str:
    """Reason why a failure is an outage; empty where it is the candidate's own."""
    return next((why for fits, why in _OUTAGES if fits(failure)), "")
