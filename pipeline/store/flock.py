"""Locks on files, waited for with a deadline and with a word of who holds them.

Every lock of ours is taken here: of runs, of the store, of git's worktrees, of the folder of toolchains."""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import closing, suppress
from threading import Event, Thread

from pipeline.errors import RunLocked


def try_lock(fd: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# Who waits for longer than this says so.
SILENT = 1.0
# A guard has next to nothing to do; neither has whoever changes what git knows of its worktrees.
LOCK_PATIENCE = 60.0


def acquire_lock(fd: int, how: int, path: str, patience: float = LOCK_PATIENCE) -> None:
    """Lock the file `fd`, which was opened at `path`; waits, with a word on standard error.  Locked after `patience`.

    A thread does the waiting, as the system has no flock with a deadline, and to ask again and again would never get
    a lock that others let go of for moments.  It has a number of its own for the file: what it gets too late, it
    lets go of again."""
    if try_lock(fd, how):
        return
    got = Event()

    def wait(own: int) -> None:
        with closing(os.fdopen(own)):
            fcntl.flock(own, how)
            got.set()

    Thread(target=wait, args=[os.dup(fd)], daemon=True).start()
    if got.wait(min(SILENT, patience)):
        return
    with suppress(OSError):  # nobody reads it; we wait all the same
        sys.stderr.write(f"coppice: waiting for the lock {path}, held by {lock_holders(fd)}; {patience:g} s at most\n")
        sys.stderr.flush()
    if not got.wait(patience - SILENT):
        who = lock_holders(fd)
        raise RunLocked(f"{path}: locked for {patience:g} s by {who}; wait for its end, or end it, and start again")


def lock_holders(fd: int) -> str:
    """Who has the file locked, as far as the system tells us: a child may have inherited it from who is gone."""
    here, mark = os.getpid(), b":%d 0 EOF" % os.fstat(fd).st_ino
    pids = filter(str.isdigit, os.listdir("/proc")) if os.path.isdir("/proc/self/fdinfo") else ()
    found = [f"process {pid} ({_called(pid)})" for pid in pids if int(pid) != here and _holds(pid, mark)]
    return ", ".join(found) or ("this process itself" if _holds(str(here), mark) else "another process")


def _holds(pid: str, mark: bytes) -> bool:
    try:
        for number in os.listdir(f"/proc/{pid}/fdinfo"):
            with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
                if any(b" FLOCK " in line and mark in line for line in file):
                    return True
    except OSError:
        return False  # ended meanwhile, or another user's
    return False


def _called(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "which has just ended"
