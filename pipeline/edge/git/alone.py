"""One at a time, among threads and processes: a lock of the operating system, which dies with its holders."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.edge.lock import PATIENCE, acquire


@contextmanager
def alone(path: str, patience: float = PATIENCE) -> Iterator[int]:
    """Gives the open file: a child that inherits it keeps the lock for as long as it runs.  Any command that runs
    beside us can take it, and keep it: so nobody waits for longer than `patience`."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        acquire(fd, fcntl.LOCK_EX, path, patience)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def alone_in(repo: str) -> Iterator[int]:
    """Git's list of worktrees and its set-up are changed by one at a time."""
    with alone(f"{repo}/coppice.lock") as fd:
        yield fd
