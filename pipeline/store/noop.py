"""Fast check whether anything changed since the last build, at the cost of a stat a file.

Imports nothing that is not built in."""

from __future__ import annotations

import marshal
import os
import sys
from _operator import length_hint  # `operator` itself is not built in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# What damaged bytes may raise while they are read as a state: then it is as if there were none.
DAMAGE = (OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError)
FORMAT = "coppice-state-4 " + sys.version

NOTHING = -1  # stands for the signature of what is not there

# What was found to be different before it was known that a build is needed: run -> time of its state, files.
LAST_LOOK: dict[str, tuple[int, list[str]]] = {}

# The files of one folder: its path up to the last slash, their names in it, their signatures.
FolderFiles = tuple[str, list[str], list[int]]
# The first part of a state file: format, complete, number of targets, runs it reads from, files.
Head = tuple[str, bool, int, tuple[str, ...], list[FolderFiles]]


def folder(run: str) -> str:
    return f"runs/{run}/.coppice"


def changed_files(files: Sequence[str], signatures: Sequence[int]) -> list[str]:
    """List the files that are not as they were.  ctime cannot be set, so a write shows even with size and
    mtime kept."""
    found = []
    paths, olds = iter(files), iter(signatures)
    while True:
        try:  # `map` makes this a fifth faster than a call for each
            for s, old in zip(map(os.stat, paths), olds, strict=True):
                if hash((s.st_ctime_ns, s.st_ino, s.st_size)) != old:
                    found.append(files[-1 - length_hint(paths)])
        except OSError:
            if next(olds, 0) != NOTHING:
                found.append(files[-1 - length_hint(paths)])
        else:
            return found


def changed_files_by_folder(folders: Sequence[FolderFiles]) -> list[str]:
    """List the changed files like `changed_files`, from within each folder: short paths save the kernel a tenth.

    Only for a process with nothing else under way, whose current folder may change meanwhile."""
    found = []
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))  # the way back, even where its path may not be walked
    try:
        for path, names, signatures in folders:
            os.fchdir(here)
            try:
                os.chdir(path or ".")
            except OSError:  # not there, perhaps never; each name says whether that is a change
                found += changed_files([path + name for name in names], signatures)
            else:
                found += [path + name for name in changed_files(names, signatures)]
    finally:
        os.fchdir(here)
        os.close(here)
    return found


def load_head(run: str) -> tuple[Head, bytes, int] | None:
    """Load the first part of the state of `run`, the whole file, and when it was written."""
    try:
        with open(f"{folder(run)}/state", "rb", buffering=0) as file:
            written = os.fstat(file.fileno()).st_ctime_ns
            content = file.read()
        size = int.from_bytes(content[:8], "little")
        head: Any = marshal.loads(content[8 : 8 + size])
    except DAMAGE:
        return None
    good = type(head) is tuple and len(head) == 5 and head[0] == FORMAT
    return (head, content, written) if good else None


def up_to_date(runs: Sequence[str]) -> int | None:
    """Number of targets of these runs if nothing needs to be done for them; else None."""
    total = 0
    pending, done = list(runs), set()
    while pending:
        run = pending.pop()
        if run in done:
            continue
        done.add(run)
        loaded = load_head(run)
        if loaded is None:
            return None
        (_, complete, targets, needs, folders), _, written = loaded
        if not complete:
            return None
        try:
            found = changed_files_by_folder(folders)
        except DAMAGE:
            return None
        if found:
            LAST_LOOK[run] = written, found
            return None
        total += targets
        pending += needs
    return total
