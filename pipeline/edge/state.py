"""The state of a run as of its last build: a signature of every file it depends on.  A cache: it may be deleted.

Imported by the no-op path, so nothing heavier than os and marshal."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

FORMAT = "coppice-state-1 " + sys.version


class Seen(NamedTuple):
    """First part of the file: all that is needed to say "nothing changed"."""

    format: str
    complete: bool  # every target of the run was fresh
    targets: int
    needs: tuple[str, ...]  # other runs this one reads from
    files: list[str]
    signatures: list[int]


class Known(NamedTuple):
    """Second part: what is needed once something did change."""

    contents: list[str]  # sha256 of each file of Seen.files, or "" where it is none
    suspects: list[str]  # targets not known to be fresh
    watched: dict[str, list[str]]  # a folder or pattern that is read -> the files and folders behind it


def folder(run: str) -> str:
    return f"runs/{run}/.coppice"


def signature(path: str) -> int:
    """Differs when the file was written or replaced, even with size and mtime kept: ctime cannot be set."""
    try:
        s = os.stat(path)
    except OSError:
        return -1
    return hash((s.st_mtime_ns, s.st_size, s.st_ctime_ns, s.st_ino))


def unchanged(files: Sequence[str], signatures: Sequence[int]) -> bool:
    stat = os.stat
    try:
        for path, old in zip(files, signatures, strict=True):
            s = stat(path)
            if hash((s.st_mtime_ns, s.st_size, s.st_ctime_ns, s.st_ino)) != old:
                return False
    except OSError:
        return False
    return True


def changed(files: Sequence[str], signatures: Sequence[int]) -> list[str]:
    return [path for path, old in zip(files, signatures, strict=True) if signature(path) != old]


def load(run: str) -> tuple[Seen, bytes] | None:
    """The first part, and the bytes of the second."""
    try:
        with open(f"{folder(run)}/state", "rb") as file:
            content = file.read()
        size = int.from_bytes(content[:8], "little")
        seen = Seen(*marshal.loads(memoryview(content)[8 : 8 + size]))
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return (seen, content[8 + size :]) if seen.format == FORMAT else None


def known(rest: bytes) -> Known | None:
    try:
        return Known(*marshal.loads(rest))
    except (ValueError, EOFError, TypeError):
        return None


def dump(seen: Seen, known: Known) -> bytes:
    head = marshal.dumps(tuple(seen))
    return len(head).to_bytes(8, "little") + head + marshal.dumps(tuple(known))


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
        if loaded is None or not loaded[0].complete or not unchanged(loaded[0].files, loaded[0].signatures):
            return None
        total += loaded[0].targets
        pending += loaded[0].needs
    return total
