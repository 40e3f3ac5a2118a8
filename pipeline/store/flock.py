"""Locks on files, waited for with a deadline and with a word of who holds them.

Every lock of ours is taken here: of runs, of the store, of git's worktrees, of the folder of toolchains, and of folders
that last no longer than who works in them."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from threading import Event, Thread
from typing import NamedTuple

from pipeline.errors import RunLocked
from pipeline.store.folders import delete_tree

# A wait that lasts longer than this is reported.
SILENT = 1.0
# A guard has next to nothing to do; neither has whoever changes git's list of worktrees.
LOCK_PATIENCE = 60.0
# A wait looks this often whether its build stops; a signal that another thread took is handled then, too.
WAKE_SECONDS = 0.25
# Who holds a lock that is waited for long is looked up this often.
_LOOK_AGAIN = 5.0
# How long a wait may still last once its build stops: enough for locks that are held for moments.
LAST_WAIT = 1.0


class LockWaits:
    """The waits for locks in this process.  `stopping` is a plain mark, because signal handlers set it."""

    stopping = False


def try_lock(fd: int, mode: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def file_lock(
    path: str, patience: float = LOCK_PATIENCE, mode: int = fcntl.LOCK_EX, shared: bool = False
) -> Iterator[int]:
    """Hold a lock; gives the open file: a child that inherits it keeps the lock for as long as it runs.  Any command
    that runs beside us can take the lock and keep it, so nobody waits for longer than `patience`.

    `shared`: users may have the folder together, as far as their umask says; else a lock is this user's alone."""
    with lock_file(path, 0o666 if shared else 0o600) as fd:
        _acquire(fd, mode, path, patience)
        yield fd


def is_file_locked(path: str) -> bool | None:
    """Check if somebody holds a lock; None where this user may not open its file.

    Reading suffices, and nothing is made: who looks at a project may have no right to write there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:
        return None
    try:
        return not try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


@contextmanager
def lock_file(path: str, access: int = 0o600) -> Iterator[int]:
    """Open a file to be locked; it is closed after the block, and a lock on it released."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, access)
    try:
        yield fd
    finally:
        os.close(fd)


def _acquire(fd: int, mode: int, path: str, patience: float) -> None:
    """Lock the file `fd`, which was opened at `path`.  Raises RunLocked after `patience`, or when the build stops.

    A thread does the waiting: the system has no flock with a deadline, and asking again and again would never get a
    lock that others release for moments only.  The thread has a file number of its own; a lock that it gets too late
    is released with it."""
    if try_lock(fd, mode):
        return
    got = _lock_in_thread(fd, mode)
    if _wait_within(got, min(SILENT, patience)):
        return
    with suppress(OSError):  # nobody reads it; we wait all the same
        sys.stderr.write(
            f"coppice: waiting for the lock {path}, held by {lock_holders(fd).text}; {patience:g} s at most\n"
        )
        sys.stderr.flush()
    if _wait_within(got, patience - SILENT):
        return
    if LockWaits.stopping:
        raise RunLocked(f"{path}: still locked by {lock_holders(fd).text} when the build was stopped")
    raise _kept_for_good(path, patience, lock_holders(fd).text)


def _kept_for_good(path: str, patience: float, who: str) -> RunLocked:
    return RunLocked(f"{path}: locked for {patience:g} s by {who}; wait for its end, or end it, and start again")


def _lock_in_thread(fd: int, mode: int) -> Event:
    """Start to wait for a lock; the event is set when we have it."""
    got = Event()

    def wait(own: int) -> None:
        with closing(os.fdopen(own)):
            fcntl.flock(own, mode)
            got.set()

    Thread(target=wait, args=[os.dup(fd)], daemon=True).start()
    return got


class LockHolders(NamedTuple):
    """The processes that have a file locked, but for this one, as far as the system tells; and words for them."""

    pids: tuple[int, ...]
    text: str


class LockWait(NamedTuple):
    """How a lock is waited for that may rightly be held for hours.

    `say` hears who has it, `knows` tells if they may; for others it is waited no longer than `patience`."""

    stopping: Callable[[], bool]
    say: Callable[[LockHolders], None]
    knows: Callable[[LockHolders], bool]
    patience: float = LOCK_PATIENCE


def wait_for_lock(fd: int, path: str, how: LockWait) -> bool:
    """Wait for a lock; False when the build stops first.  Raises RunLocked when a stranger keeps it."""
    if try_lock(fd):
        return True
    got, now, said = _lock_in_thread(fd, fcntl.LOCK_EX), time.monotonic(), False
    look, known = now + SILENT, now
    while not got.wait(WAKE_SECONDS):
        if how.stopping():
            return False
        if (now := time.monotonic()) < look:
            continue
        who, look = lock_holders(fd), now + _LOOK_AGAIN
        if not said:
            said = True
            how.say(who)
        if how.knows(who):
            known = now
        elif now - known > how.patience:
            raise _kept_for_good(path, how.patience, who.text)
    return True


def _wait_within(got: Event, seconds: float) -> bool:
    last = time.monotonic() + seconds
    stopping = False
    while (left := last - time.monotonic()) > 0:
        if got.wait(min(left, WAKE_SECONDS)):
            return True
        if LockWaits.stopping and not stopping:
            stopping, last = True, min(last, time.monotonic() + LAST_WAIT)
    return got.is_set()


def lock_holders(fd: int) -> LockHolders:
    """The processes that have the file locked: a child may have inherited the lock."""
    here, mark = os.getpid(), b":%d 0 EOF" % os.fstat(fd).st_ino
    pids = filter(str.isdigit, os.listdir("/proc")) if os.path.isdir("/proc/self/fdinfo") else ()
    found = tuple(sorted(({int(pid) for pid in pids if _holds(pid, mark)} | _lockers(mark)) - {here}))
    named = ", ".join(f"process {pid} ({_process_name(str(pid))})" for pid in found)
    return LockHolders(found, named or ("this process itself" if _holds(str(here), mark) else "another process"))


def _holds(pid: str, mark: bytes) -> bool:
    try:
        for number in os.listdir(f"/proc/{pid}/fdinfo"):
            with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
                if any(b" FLOCK " in line and mark in line for line in file):
                    return True
    except OSError:
        return False  # ended meanwhile, or another user's
    return False


def _lockers(mark: bytes) -> set[int]:
    """The processes that took the lock and are alive: into some nobody may look, as into builds."""
    try:
        with open("/proc/locks", "rb") as file:
            lines = [line.split() for line in file if b" FLOCK " in line and line.rstrip().endswith(mark)]
    except OSError:
        return set()
    pids = {int(words[words.index(b"FLOCK") + 3]) for words in lines if b"->" not in words}
    return {pid for pid in pids if _is_running(pid)}


def _is_running(pid: int) -> bool:
    """Check if a process runs: one that has ended holds nothing, though its parent may not have heard of it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _process_name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "which has just ended"


# --- Scratch folders: their owners lock them, and so tell that they live; in a container nobody knows all processes.


@contextmanager
def scratch_folder(prefix: str) -> Iterator[str]:
    """Give a new folder for the block.  Those of the same prefix whose owners were killed are removed first."""
    import tempfile  # here: few builds need it

    _remove_orphans(tempfile.gettempdir(), prefix)
    where, lock = _locked_folder(lambda: tempfile.mkdtemp(prefix=prefix))
    try:
        yield where
    finally:
        delete_tree(where)
        os.close(lock)


def _locked_folder(make: Callable[[], str]) -> tuple[str, int]:
    while True:
        where = os.path.realpath(make())
        with suppress(FileNotFoundError):  # another process took it for an orphan before it was locked
            if (lock := _lock_folder(where)) is not None:
                if os.path.exists(where):
                    return where, lock
                os.close(lock)


def _lock_folder(path: str) -> int | None:
    """Lock a folder; None if somebody else has."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if try_lock(fd):
        return fd
    os.close(fd)
    return None


@lru_cache(maxsize=8)
def _remove_orphans(temporary: str, prefix: str) -> None:
    """Remove scratch folders of ours whose owner was killed; asked for once by a process."""
    with os.scandir(temporary) as entries:
        ours = [each for each in entries if each.name.startswith(prefix) and each.is_dir(follow_symlinks=False)]
    for each in ours:
        with suppress(OSError):  # another process removes it too, or it cannot be removed: it only takes room
            if each.stat(follow_symlinks=False).st_uid == os.geteuid():
                os.chmod(each.path, 0o700)  # a command may have shut it
                if (lock := _lock_folder(each.path)) is not None:
                    delete_tree(each.path)
                    os.close(lock)
