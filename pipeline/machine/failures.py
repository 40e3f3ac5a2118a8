"""Describe a failure, and tell a candidate's failure from an outage or a full disk.

A candidate's failure is a result.  An outage is nobody's: it fails the target, is never stored, and is tried again."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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


def full_disk(paths: Iterable[str], scratch: bool = True) -> str:
    """Describe a full disk among those that are written to, by a command also for `scratch`; empty if none is."""
    places = (*paths, _SCRATCH) if scratch else paths
    return next((describe_room(path) for path in places if _free_bytes(path) < _FULL), "")


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
    code: str = ""  # the service's own word for the error, such as `insufficient_quota`
    garbled: bool = False  # the answer does not follow the protocol
    said: str = ""  # the tool's own message, if it blames its service


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


# Outages that show in how a program ended, in the order in which they are looked at.
_ENDS: tuple[tuple[Callable[[FailureFacts], bool], Outage], ...] = (
    (lambda it: it.missing, Outage("missing", "the program is not there")),
    (
        lambda it: not it.ended.timed_out and signal_of(it.ended) in FROM_OUTSIDE,
        Outage("killed", "it was killed from outside, as for want of memory"),
    ),
    (lambda it: it.asked and it.ended.timed_out, Outage("time-out", "there was no answer in time")),
    (
        lambda it: it.asked and it.ended.code in (NOT_FOUND, NOT_EXECUTABLE),
        Outage("missing", "what it was to start cannot be started"),
    ),
)
_NOT_NOW = Outage("server", "it says that it cannot work now")
_GARBLED = Outage("malformed", "what came back is no answer of the service")

# A service's own words for its errors.  Kinds by the whole code, by the text of a message, by the status of HTTP: what
# is more exact comes first.  Credit comes before the status: services say 400, 403 or 429 for it.
SERVICE_CODES = {
    "insufficient_quota": "credit",
    "billing_hard_limit_reached": "credit",
    "billing_not_active": "credit",
    "billing_error": "credit",
    "insufficient_balance": "credit",
    "rate_limit_error": "rate limit",
    "rate_limit_exceeded": "rate limit",
    "ratelimiterror": "rate limit",
    "resource_exhausted": "rate limit",
    "usage_limit_reached": "rate limit",
    "overloaded_error": "overload",
    "overloaded": "overload",
    "unavailable": "overload",
    "serviceunavailableerror": "overload",
    "authentication_error": "login",
    "authenticationerror": "login",
    "invalid_api_key": "login",
    "permission_error": "login",
    "permission_denied": "login",
    "permissiondeniederror": "login",
    "unauthenticated": "login",
    "providerautherror": "login",
    "not_found_error": "missing",
    "notfounderror": "missing",
    "model_not_found": "missing",
    "api_error": "server",
    "server_error": "server",
    "internal": "server",
    "internalservererror": "server",
    "badgatewayerror": "server",
    "apierror": "server",
    "timeout_error": "server",
    "deadline_exceeded": "server",
    "timeout": "network",
    "apiconnectionerror": "network",
}
_CREDIT = re.compile(
    r"credit|billing|current quota|insufficient[ _](?:funds|balance|quota)|payment required|spend(?:ing)? limit", re.I
)
_WORDS = tuple(
    (re.compile(words, re.IGNORECASE), kind)
    for words, kind in (
        (r"rate.?limit|usage.limit|too many requests|quota|resource.?exhausted", "rate limit"),
        (r"overloaded|at capacity|service unavailable", "overload"),
        (
            r"api.?key|authenticat|unauthori[sz]ed|permission_error|permission.denied|/login|log ?in\b|logged in|oauth",
            "login",
        ),
        (r"(?:internal )?server.error|bad gateway|api_error\b", "server"),
        (r"connect|network|ECONN|ENOTFOUND|ETIMEDOUT|timed? ?out", "network"),
    )
)
_PLAIN = 3  # of them: also beside a status that says nothing of the service
_STATUSES = {
    0: "network", 401: "login", 402: "credit", 403: "login", 404: "missing", 407: "network", 408: "network",
    425: "rate limit", 429: "rate limit", 503: "overload", 529: "overload",
}  # fmt: skip


def _service_kind(failure: FailureFacts) -> str:
    """The kind of outage of a service, by its own words and statuses; empty where it blames something else."""
    status, code = failure.status, failure.code.lower()
    named = SERVICE_CODES.get(code, "")
    if named == "credit" or (_CREDIT.search(failure.said) and (status is None or status < 500)):
        return "credit"
    by_status = "" if status is None else _STATUSES.get(status, "server" if status >= 500 else "")
    if by_status or named:
        return by_status if by_status not in ("", "server") else named or by_status
    words = _WORDS if status is None else _WORDS[:_PLAIN]
    return next((kind for pattern, kind in words if pattern.search(failure.said)), "")


def refusal_text(kind: str) -> str:
    """An outage of a service in words: one that cannot be reached has refused nothing."""
    return "the service cannot be reached" if kind == "network" else f"the service refuses ({kind})"


def find_outage(failure: FailureFacts) -> Outage | None:
    """The outage that a failure is; None where it is the candidate's own."""
    if found := next((outage for fits, outage in _ENDS if fits(failure)), None):
        return found
    if kind := _service_kind(failure):
        return Outage(kind, refusal_text(kind))
    if failure.asked and failure.ended.code == NOT_NOW:
        return _NOT_NOW
    return _GARBLED if failure.garbled else None


def outage_reason(failure: FailureFacts) -> str:
    """Reason why a failure is an outage; empty where it is the candidate's own."""
    found = find_outage(failure)
    return found.why if found else ""
