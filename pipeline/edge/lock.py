"""One builder a run: an exclusive lock of the operating system, which dies with its process."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pipeline.edge import state
from pipeline.edge.heartbeat import Holder, beating, holder_of, ours, tell, withdraw
from pipeline.edge.takeover import GRACE, PAUSE, Takeover, held, note, unseat
from pipeline.errors import Locked


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
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield holder, guard
        finally:
            withdraw(run)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _taken_if_free(run: str, lock: int) -> Holder | None:
    """From nobody."""
    if not _taken(lock):
        advice = (
            f"wait for it, or stop that process; a search over code is taken over with `coppice advance {run} --force`"
        )
        raise Locked(f"{held(run, holder_of(run))}: {advice}")
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
