"""Having the machine for oneself: a lock that all builds of a user share, for commands that time things.

That nothing of the same build runs beside such a command is the schedule's business.  The lock is the system's, in the
user's temporary folder: it ends with the process that has it, however that ends.  Its file says for which target it is
held."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipeline.core.text import printable_line
from pipeline.machine.job import Job, StageFailed
from pipeline.machine.process import BuildStopping
from pipeline.store.flock import lock_file, wait_for_lock

LONGEST_NOTE = 300


@contextmanager
def exclusive_machine(job: Job) -> Iterator[None]:
    """Let no other build of this user time anything for the block; does nothing for a target that is not exclusive."""
    if not job.target.limits.exclusive:
        yield
        return
    begun = time.monotonic()
    with lock_file(f"{_lock_folder()}/exclusive") as lock:
        if not wait_for_lock(lock, lambda: job.processes.stopping, lambda who: _say_waiting(job, lock, who)):
            raise BuildStopping
        job.add_wait(time.monotonic() - begun)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {job.target.name}".encode(), 0)
        yield


def _say_waiting(job: Job, lock: int, who: str) -> None:
    pid, _, target = os.pread(lock, LONGEST_NOTE, 0).decode(errors="replace").partition(" ")
    if target and f"process {pid} " in who:  # otherwise it is not of whoever has the lock now
        who = f"{printable_line(target, LONGEST_NOTE)}, {who},"
    job.say(f"waits for the machine, which is kept by {who} for something exclusive")


def _lock_folder() -> str:
    """The folder of the lock.  Anybody may write beside it, so it must be this user's and no link."""
    folder = f"{tempfile.gettempdir()}/coppice-{os.getuid()}"
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StageFailed(f"{folder} is not a folder of this user; remove it, or set TMPDIR to another folder", 2)
    return folder
