"""Having the machine for oneself: a lock that all builds of a user share, for commands that time things.

That nothing of the same build runs beside such a command is the schedule's business.  The lock is the system's, in the
user's temporary folder: it ends with the process that has it, however that ends."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipeline.machine.job import Job, StageFailed
from pipeline.machine.process import BuildStopping
from pipeline.store.flock import lock_file, wait_for_lock


@contextmanager
def exclusive_machine(job: Job) -> Iterator[None]:
    """Let no other build of this user time anything for the block; does nothing for a target that is not exclusive."""
    if not job.target.limits.exclusive:
        yield
        return
    with lock_file(f"{_lock_folder()}/exclusive") as lock:
        if not wait_for_lock(lock, lambda: job.processes.stopping, lambda who: _say_waiting(job, who)):
            raise BuildStopping
        yield


def _say_waiting(job: Job, who: str) -> None:
    line = f"waits for the machine, which is kept by {who} for something exclusive"
    job.say(line)
    with suppress(OSError):  # nobody reads it; we wait all the same
        sys.stderr.write(f"coppice: {job.target.name} {line}\n")
        sys.stderr.flush()


def _lock_folder() -> str:
    """The folder of the lock.  Anybody may write beside it, so it must be this user's and no link."""
    folder = f"{tempfile.gettempdir()}/coppice-{os.getuid()}"
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StageFailed(f"{folder} is not a folder of this user; remove it, or set TMPDIR to another folder", 2)
    return folder
