"""Where a target writes its outputs, and how they are then looked at and put in place."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress

from pipeline.core.graph import Ports, Target
from pipeline.core.recipe import suffix
from pipeline.edge import state
from pipeline.edge.job import StageFailed
from pipeline.edge.store import Written, written
from pipeline.errors import writing

# What file systems allow for a name, in bytes.
LONGEST = 255


class Staging:
    """Where a target writes its outputs before they are put in place; gone afterwards."""

    def __init__(self, target: Target, own_folder: bool, attempt: int = 1) -> None:
        # What an earlier attempt left running must not write into this one's.
        top = f"{state.folder(target.run)}/stage" + (f"/{attempt}" if attempt > 1 else "")
        self.again = attempt > 1
        name = target.name.partition(":")[2]
        own = len(f"runs/{target.run}/")
        self.folder = f"{top}/{name}" if own_folder else ""
        if not own_folder:
            self.paths = [f"{top}/{_flat(name, n, path)}" for n, path in enumerate(target.outputs)]
        elif len(target.outputs) == 1:
            self.paths = [f"{self.folder}/{os.path.basename(target.outputs[0])}"]
        else:
            self.paths = [f"{self.folder}/{p[own:]}" for p in target.outputs]

    def __enter__(self) -> Staging:
        if self.folder or self.again:
            for folder in {os.path.dirname(path) for path in self.paths}:
                os.makedirs(folder, exist_ok=True)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif kind is not None:
            self.drop()

    def drop(self) -> None:
        for path in self.paths:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def by_port(self, ports: Ports) -> dict[str, list[str]]:
        left = iter(self.paths)
        return {port: [next(left) for _ in group] for port, group in ports}


def _flat(name: str, n: int, path: str) -> str:
    """A name of its own, without a folder of its own; the end of it may matter to who writes there."""
    whole = f"{name}~{n}~{os.path.basename(path)}"
    return whole if len(whole.encode()) <= LONGEST else f"{name}~{n}{suffix(path)[-40:]}"


def settled(staged: str, final: str) -> Written:
    """Sync what the stage wrote and look at it once; anything but a plain file is the stage's failure."""
    try:
        fd = os.open(staged, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise StageFailed(f"it ended well but did not write {final}: {{out}} stands for the path to write", 1) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StageFailed(f"what it wrote as {final} is not a plain file but a symbolic link", 1) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise StageFailed(f"what it wrote as {final} is not a plain file", 1)
        with writing(final):
            os.fsync(fd)
        return written(fd, status)
    finally:
        os.close(fd)


def put_in_place(staged: str, final: str) -> None:
    try:
        os.rename(staged, final)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(staged, final)
    except IsADirectoryError:
        raise StageFailed(f"{final} is a folder; remove it, this target writes a file there", 1) from None
