"""Cache of file signatures as of a run's last build.

A cache: it may be deleted.

The first part of the file is all that is needed to say "nothing changed" and is read by `noop`; the second is needed
once something did change, and is believed only if the checksum of the whole holds."""

from __future__ import annotations

import marshal
import os
from itertools import groupby, islice
from typing import NamedTuple
from zlib import crc32

from pipeline.store import noop
from pipeline.store.noop import NOTHING


class StateHead(NamedTuple):
    """First part of the file: all that is needed to find that nothing changed.

    In the file, files that follow each other in one folder share its path."""

    format: str
    complete: bool  # every target of the run was fresh
    targets: int
    needs: tuple[str, ...]  # other runs this one reads from
    files: list[str]
    signatures: list[int]


class StateDetails(NamedTuple):
    """Second part: what is needed once something did change."""

    contents: list[str]  # sha256 of each file of StateHead.files, or "" where it is none
    suspects: list[str]  # targets not known to be fresh
    watched: dict[str, list[str]]  # a folder or pattern that is read -> the files and folders behind it


def signature(path: str) -> int:
    """Differs when the file was written or replaced; NOTHING when there is none."""
    try:
        return stat_signature(os.stat(path))
    except (OSError, ValueError):  # ValueError: a NUL in it, out of damaged bytes
        return NOTHING


def stat_signature(s: os.stat_result) -> int:
    """Signature from a stat; `noop.changed_files` has the same inline, because a call would cost."""
    return hash((s.st_ctime_ns, s.st_ino, s.st_size))


def load_state(run: str) -> tuple[StateHead, StateDetails, int] | None:
    """Load both parts of the state and when it was written.  All of it is checked, because it is believed."""
    loaded = noop.load_head(run)
    if loaded is None:
        return None
    head, content, written = loaded
    if crc32(content[:-4]) != int.from_bytes(content[-4:], "little"):
        return None
    size = int.from_bytes(content[:8], "little")
    folders = head[4]
    files = [path + name for path, names, _ in folders for name in names]
    seen = StateHead(*head[:4], files, [number for _, _, signatures in folders for number in signatures])
    return seen, StateDetails(*marshal.loads(content[8 + size : -4])), written


def folder_of(path: str) -> str:
    """Path up to the last slash; "" for a path that ends with one, so that the name behind it is never empty."""
    top, slash, name = path.rpartition("/")
    return top + slash if name else ""


def _group_by_folder(seen: StateHead) -> list[noop.FolderFiles]:
    signatures = iter(seen.signatures)
    grouped = []
    for path, files in groupby(seen.files, folder_of):
        names = [file[len(path) :] for file in files]
        grouped.append((path, names, [*islice(signatures, len(names))]))
    return grouped


def dump_state(first: StateHead, details: StateDetails) -> bytes:
    head = marshal.dumps((*first[:4], _group_by_folder(first)))
    content = len(head).to_bytes(8, "little") + head + marshal.dumps(tuple(details))
    return content + crc32(content).to_bytes(4, "little")
