"""Cache of file signatures as of a run's last build.

A cache: it may be deleted, and it may have been written by anybody, so it is plain text and numbers.

The first part of the file is all that is needed to say "nothing changed" and is read by `noop`; the second is needed
once something did change, and is believed only if the checksum of the whole holds."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from itertools import groupby, islice
from typing import NamedTuple
from zlib import crc32

from pipeline.store import noop
from pipeline.store.noop import NOTHING


class StateHead(NamedTuple):
    """First part of the file: all that is needed to find that nothing changed.

    In the file, files that follow each other in one folder share its path."""

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


def content_signature(path: str) -> int:
    """As `signature`, but the same after a change of owner or rights: SQLite sets those of a -wal whenever it reads."""
    try:
        s = os.stat(path)
    except (OSError, ValueError):
        return NOTHING
    return hash((s.st_mtime_ns, s.st_ino, s.st_size))


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
    folders = head[3]
    files = [path + name for path, names, _ in folders for name in names]
    seen = StateHead(*head[:3], files, [number for _, _, signatures in folders for number in signatures])
    try:
        return seen, _parse_details(content[size:-4]), written
    except noop.DAMAGE:
        return None


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
    folders = _group_by_folder(first)
    words = [noop.FORMAT, str(int(first.complete)), str(first.targets), str(len(first.needs)), str(len(folders))]
    words += [*first.needs, *(word for path, names, _ in folders for word in (path, str(len(names))))]
    text = _words([*words, *(name for _, names, _ in folders for name in names)])
    numbers = array("q", [16 + 8 * len(first.files) + len(text), len(first.files), *first.signatures])
    content = numbers.tobytes() + text + _dump_details(details)
    return content + crc32(content).to_bytes(4, "little")


def _dump_details(details: StateDetails) -> bytes:
    lists = [details.contents, details.suspects, *([path, *behind] for path, behind in details.watched.items())]
    return b"".join(_words([str(len(each)), *each]) for each in lists)


def _parse_details(content: bytes) -> StateDetails:
    """Parse lists of words, each after its length: contents, suspects, and a path with all behind it for each."""
    words = content.decode("utf-8", "surrogatepass").split("\0")
    lists, at = [], 0
    while at < len(words) - 1:
        end = at + 1 + int(words[at])
        if not at < end < len(words):
            raise ValueError(words[at])
        lists.append(words[at + 1 : end])
        at = end
    contents, suspects, *watched = lists
    return StateDetails(contents, suspects, {path: behind for path, *behind in watched})


def _words(words: Iterable[str]) -> bytes:
    """Words with a NUL after each, which none has in it; names need not be UTF-8."""
    return "".join([f"{word}\0" for word in words]).encode("utf-8", "surrogatepass")
