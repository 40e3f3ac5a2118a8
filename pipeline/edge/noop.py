"""Decides that nothing is to be done, at the cost of a stat a file.  Imports nothing that is not built in."""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# What damaged bytes may raise while they are read as a state: then it is as if there were none.
DAMAGE = (OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError)
FORMAT = "coppice-state-2 " + sys.version

# The first part of a state file: format, complete, number of targets, runs it reads from, files, their signatures.
Head = tuple[str, bool, int, tuple[str, ...], list[str], list[int]]


def folder(run: str) -> str:
    return f"runs/{run}/.coppice"


def unchanged(files: Sequence[str], signatures: Sequence[int]) -> bool:
    """Is every file as it was?  ctime cannot be set, so a write shows even with size and mtime kept."""
    try:
        for s, old in zip(map(os.stat, files), signatures, strict=True):
            if hash((s.st_ctime_ns, s.st_ino, s.st_size)) != old:
                return False
    except DAMAGE:
        return False
    return True


def load(run: str) -> tuple[Head, bytes] | None:
    """The first part of the state of `run`, and the bytes of the second."""
    try:
        with open(f"{folder(run)}/state", "rb", buffering=0) as file:
            content = file.read()
        size = int.from_bytes(content[:8], "little")
        head: Any = marshal.loads(content[8 : 8 + size])
    except DAMAGE:
        return None
    return (head, content[8 + size :]) if type(head) is tuple and len(head) == 6 and head[0] == FORMAT else None


def up_to_date(runs: Sequence[str]) -> int | None:
    """How many targets these runs have, if nothing at all needs to be done for them; else None."""
    total = 0
    pending, done = list(runs), set()
    while pending:
        run = pending.pop()
        if run in done:
            continue
        done.add(run)
        loaded = load(run)
        if loaded is None:
            return None
        _, complete, targets, needs, files, signatures = loaded[0]
        if not complete or not unchanged(files, signatures):
            return None
        total += targets
        pending += needs
    return total
