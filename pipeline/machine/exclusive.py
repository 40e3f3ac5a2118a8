"""Having the machine for oneself: a lock that all builds of a user share, for commands that time things.

That nothing of the same build runs beside such a command is the schedule's business.  The lock is the system's: it ends
with the process that has it, however that ends.  Its place is the same for all builds of a user, whatever their
temporary folders are.  Its file says for which target it is held."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pipeline.core.text import printable_line
from pipeline.machine.job import Job, StageFailed
from pipeline.machine.process import BuildStopping
from pipeline.store.flock import LockWait, lock_file, wait_for_lock

LONGEST_NOTE = 300
LOCK_FOLDER = f"/tmp/coppice-{os.getuid()}"


@contextmanager
def exclusive_machine(job: Job) -> Iterator[None]:
    """Let no other build of this user time anything for the block; does nothing for a target that is not exclusive."""
    if not job.target.limits.exclusive:
        yield
        return
    begun, path = time.monotonic(), f"{own_folder(LOCK_FOLDER)}/exclusive"
    with lock_file(path) as lock:
        say, knows = partial(_say_waiting, job, lock), partial(_is_named, lock)
        if not wait_for_lock(lock, path, LockWait(lambda: job.processes.stopping, say, knows)):
            raise BuildStopping
        job.add_wait(time.monotonic() - begun)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {job.target.name}".encode(), 0)
        yield


def _note(lock: int) -> tuple[str, str]:
    """The process and the target for which the lock is, or was, held."""
    pid, _, target = os.pread(lock, LONGEST_NOTE, 0).decode(errors="replace").partition(" ")
    return pid, target


def _is_named(lock: int, who: str) -> bool:
    """Check if whoever has the lock is the build that has written its name, and not something that only keeps it."""
    pid, target = _note(lock)
    return bool(target) and f"process {pid} " in who


def _say_waiting(job: Job, lock: int, who: str) -> None:
    pid, target = _note(lock)
    if _is_named(lock, who):
        who = f"{printable_line(target, LONGEST_NOTE)} (process {pid})"
        if int(pid) in _ancestors():
            raise StageFailed(f"{who} has the machine to itself and waits for this build: only one may be exclusive", 2)
    job.say(f"waits: {who} has the machine to itself")


def _ancestors() -> Iterator[int]:
    """The process that has started this one, the one that has started that, and so on, as far as the system tells."""
    pid = os.getppid()
    with suppress(OSError):  # it is gone, or this system does not tell
        while pid:
            yield pid
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])


def own_folder(folder: str) -> str:
    """The folder, made where there is none.  Anybody may write beside it, so it must be this user's and no link."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StageFailed(f"{folder} is not a folder of this user; it has to be removed", 2)
    return folder
