"""The tree that an index stands for, written as `git write-tree` does: only the folders that changed are new."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha1
from typing import NamedTuple

from pipeline.edge.git.command import git
from pipeline.edge.git.objects import name_of, write_object

_LARGEST = 1 << 19  # from then on git is faster
_DEEPEST = 100
_STAGE_OR_MORE = 0x70  # of a merge, or with flags of a later version of the format


class _Folder(NamedTuple):
    """As git has it in the index, still valid."""

    rows: int
    tree: bytes


class _Index(NamedTuple):
    rows: list[tuple[bytes, int, bytes]]  # name, mode, blob
    folders: dict[bytes, _Folder]


class _Unusual(Exception):
    """Git itself knows what to do with it."""


def is_whole(text: bytes) -> bool:
    """It ends with the hash of the rest."""
    return text[-20:] == sha1(text[:-20]).digest()


def trees_in(index: str) -> list[str]:
    """Those that it holds as they are, the tree of a whole commit first."""
    try:
        return [folder.tree.hex() for folder in _read(index).folders.values()]
    except _Unusual:
        return []


def write_tree(repo: str, index: str, known: Collection[str] = ()) -> str:
    """`known`: trees that are there already."""
    try:
        return _written(repo, _read(index), set(known), b"", 0)[0]
    except _Unusual:
        return git("write-tree", repo=repo, index=index).decode().strip()


def _read(index: str) -> _Index:
    """Its format is described in gitformat-index(5)."""
    with open(index, "rb") as file:
        text = file.read(_LARGEST)
    if text[:8] != b"DIRC\0\0\0\2" or len(text) == _LARGEST:
        raise _Unusual
    rows, at = [], 12
    for _ in range(int.from_bytes(text[8:12])):
        end = text.index(b"\0", at + 62)
        if text[at + 60] & _STAGE_OR_MORE:
            raise _Unusual
        rows.append((text[at + 62 : end], int.from_bytes(text[at + 24 : at + 28]), text[at + 40 : at + 60]))
        at += (end - at + 8) & ~7
    return _Index(rows, dict(_folders(_extension(text, at))))


def _extension(text: bytes, at: int) -> bytes:
    """What it knows of folders.  An extension with a small letter changes the meaning of all."""
    found = b""
    while at < len(text) - 20:
        name, size = text[at : at + 4], int.from_bytes(text[at + 4 : at + 8])
        if not name[:1].isupper():
            raise _Unusual
        if name == b"TREE":
            found = text[at + 8 : at + 8 + size]
        at += 8 + size
    return found


def _folders(text: bytes) -> Iterator[tuple[bytes, _Folder]]:
    """Each before those in it.  What was changed below makes it invalid: less than no rows, and no tree."""
    above: list[tuple[bytes, int]] = []  # the folders we are in, and how many in each are still to come
    at = 0
    while at < len(text):
        end, line = text.index(b"\0", at), text.index(b"\n", at)
        prefix = above[-1][0] + text[at:end] + b"/" if above else b""
        rows, inner = map(int, text[end + 1 : line].split())
        at = line + 1
        if rows >= 0:
            yield prefix, _Folder(rows, text[at : at + 20])
            at += 20
        if above:
            above[-1] = (above[-1][0], above[-1][1] - 1)
        above.append((prefix, inner))
        while above and not above[-1][1]:
            above.pop()


def _written(repo: str, index: _Index, known: set[str], prefix: bytes, at: int) -> tuple[str, int]:
    """The tree of a folder whose first file is row `at`, and the row behind its last."""
    if prefix in index.folders:
        folder = index.folders[prefix]
        return folder.tree.hex(), at + folder.rows
    if prefix.count(b"/") > _DEEPEST:
        raise _Unusual
    lines = []
    while at < len(index.rows) and index.rows[at][0].startswith(prefix):
        path, mode, blob = index.rows[at]
        name, slash, _ = path[len(prefix) :].partition(b"/")
        if slash:
            inner, at = _written(repo, index, known, prefix + name + slash, at)
            lines.append(b"40000 %b\0%b" % (name, bytes.fromhex(inner)))
        else:
            lines.append(b"%o %b\0%b" % (mode, name, blob))
            at += 1
    text = b"".join(lines)
    tree = name_of(b"tree", text)
    return (tree if tree in known else write_object(repo, b"tree", text)), at
