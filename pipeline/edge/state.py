"""The state of a run as of its last build: a signature of every file it depends on.  A cache: it may be deleted."""

from __future__ import annotations

import marshal
import os
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from pipeline.edge import noop
from pipeline.edge.noop import FORMAT, folder

__all__ = ["FORMAT", "Known", "Seen", "changed", "dump", "folder", "known", "load", "signature"]


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


def signature(path: str) -> int:
    """Differs when the file was written or replaced; -1 when nothing is there."""
    try:
        s = os.stat(path)
    except (OSError, ValueError):  # ValueError: a NUL in it, out of damaged bytes
        return -1
    return hash((s.st_ctime_ns, s.st_ino, s.st_size))


def changed(files: Sequence[str], signatures: Sequence[int]) -> list[str]:
    return [path for path, old in zip(files, signatures, strict=True) if signature(path) != old]


def load(run: str) -> tuple[Seen, bytes] | None:
    loaded = noop.load(run)
    return (Seen(*loaded[0]), loaded[1]) if loaded else None


def known(rest: bytes) -> Known | None:
    """The second part; what is in it is believed, so it is checked."""
    if crc32(rest[4:]) != int.from_bytes(rest[:4], "little"):
        return None
    try:
        return Known(*marshal.loads(rest[4:]))
    except noop.DAMAGE:
        return None


def dump(seen: Seen, known: Known) -> bytes:
    head = marshal.dumps(tuple(seen))
    rest = marshal.dumps(tuple(known))
    return len(head).to_bytes(8, "little") + head + crc32(rest).to_bytes(4, "little") + rest
