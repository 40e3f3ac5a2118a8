"""Locks of the operating system, which die with their processes: waited for with a deadline; and one builder a run."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, Thread

from pipeline.edge import state
from pipeline.edge.heartbeat import Holder, beating, holder_of, ours, tell, withdraw
from pipeline.edge.takeover import GRACE, PAUSE, Takeover, held, is_gone, note, unseat
from pipeline.errors import Locked

# A process that is being killed is not gone at once.
DYING = 0.1
# Who waits for longer than this says so.
SILENT = 1.0
# A guard has next to nothing to do; neither has whoever changes what git knows of its worktrees.
PATIENCE = 60.0


def acquire(fd: int, how: int, path: str, patience: float = PATIENCE) -> None:
    """Lock the file `fd`, which was opened at `path`; waits, with a word on standard error.  Locked after `patience`.

    A thread does the waiting, as the system has no flock with a deadline, and to ask again and again would never get
    a lock that others let go of for moments.  It has a number of its own for the file: what it gets too late, it
    lets go of again."""
    if _taken(fd, how):
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
        sys.stderr.write(f"coppice: waiting for the lock {path}, held by {holders(fd)}; {patience:g} s at most\n")
        sys.stderr.flush()
    if not got.wait(patience - SILENT):
        who = holders(fd)
        raise Locked(f"{path}: locked for {patience:g} s by {who}; wait for its end, or end it, and start again")


def holders(fd: int) -> str:
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


@contextmanager
def locked(runs: Sequence[str], takeover: Takeover | None = None) -> Iterator[tuple[int, ...]]:
    """Hold the locks of `runs`.  Nobody waits for one, so that no order is needed: the one to be taken over is first.

    Gives the files that the guard of this build must keep open: as long as the guard of a killed build is
    still ending what that build left behind, they are locked and we wait for it."""
    first = takeover.run if takeover else ""
    order = sorted(runs, key=lambda run: (run != first, run))
    with ExitStack() as stack:
        held = [stack.enter_context(_one(run, takeover if run == first else None)) for run in order]
        stack.enter_context(beating([holder for holder, _ in held]))
        yield tuple(guard for _, guard in held)


@contextmanager
def _one(run: str, takeover: Takeover | None) -> Iterator[tuple[Holder, int]]:
    os.makedirs(state.folder(run), exist_ok=True)
    with _opened(f"{state.folder(run)}/lock") as lock, _opened(f"{state.folder(run)}/guard") as guard:
        before = _taken_over(takeover, lock) if takeover else _taken_if_free(run, lock)
        holder = ours(run)
        try:
            tell(holder)
            if takeover and before:
                note(takeover, before, holder)
            acquire(guard, fcntl.LOCK_EX, f"{state.folder(run)}/guard")
            yield holder, guard
        finally:
            withdraw(run)


def _taken(fd: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken_if_free(run: str, lock: int) -> Holder | None:
    """From nobody.  A child of a killed build, between its fork and its exec, has the lock a moment longer: as long as
    who holds it by name is gone, it is about to be free."""
    asked = time.monotonic()
    while not _taken(lock):
        holder, waited = holder_of(run), time.monotonic() - asked
        if waited > (GRACE if holder and is_gone(holder) else DYING):
            taking = f"a search over code is taken over with `coppice advance {run} --force`"
            advice = f"wait for it, or stop that process; {taking}"
            raise Locked(f"{held(run, holder)}: {advice}")
        time.sleep(PAUSE)
    return None


def _taken_over(takeover: Takeover, lock: int) -> Holder | None:
    """From whom.  Of several who try, one has its turn; the others have come too late, also when it is free by then."""
    run = takeover.run
    with _opened(f"{state.folder(run)}/takeover") as turn:
        if not _taken(turn):
            raise Locked(f"run {run} is being taken over by another process right now; wait for that one")
        if _taken(lock):
            return None
        before = unseat(takeover)
        _await(run, lock, before)
    return before


def _await(run: str, lock: int, before: Holder) -> None:
    """A process that is gone may still have threads that are about to be; its locks are free after the last of them."""
    last = time.monotonic() + GRACE
    while not _taken(lock):
        now = holder_of(run)
        if time.monotonic() > last or (now and now["created_at"] != before["created_at"]):
            raise Locked(f"{held(run, now)}: the lock is not free yet; try again")
        time.sleep(PAUSE)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        yield fd
    finally:
        os.close(fd)
