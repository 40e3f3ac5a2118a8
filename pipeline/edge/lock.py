"""One builder a run: an exclusive lock of the operating system, which dies with its process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pipeline.edge import state
from pipeline.errors import Locked


@contextmanager
def locked(runs: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Hold the locks of `runs`, taken in one order by everybody.

    Gives the files that the guard of this build must keep open: as long as the guard of a killed build is
    still ending what that build left behind, they are locked and we wait for it."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(_one(run)) for run in sorted(runs))


@contextmanager
def _one(run: str) -> Iterator[int]:
    os.makedirs(state.folder(run), exist_ok=True)
    with _opened(f"{state.folder(run)}/lock") as lock, _opened(f"{state.folder(run)}/guard") as guard:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(f"run {run} is being built by {_holder(lock)}; wait for it, or stop that process") from error
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps(me).encode(), 0)
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield guard


@contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    """The holder writes its name right after it takes the lock; in the moment between, it has none."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process that has just started"
