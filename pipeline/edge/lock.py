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


class Locked(Exception):
    """Another process builds this run; the message says which."""


@contextmanager
def locked(runs: Sequence[str]) -> Iterator[None]:
    """Hold the locks of `runs`, taken in one order by everybody."""
    with ExitStack() as stack:
        for run in sorted(runs):
            stack.enter_context(_one(run))
        yield


@contextmanager
def _one(run: str) -> Iterator[None]:
    os.makedirs(state.folder(run), exist_ok=True)
    fd = os.open(f"{state.folder(run)}/lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(f"run {run} is being built by {_holder(fd)}; wait for it, or stop that process") from error
        me = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(me).encode(), 0)
        yield
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    """The holder writes its name right after it takes the lock; in the moment between, it has none."""
    try:
        holder = json.loads(os.pread(fd, 4096, 0))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process that has just started"
