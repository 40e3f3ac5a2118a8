"""Contents of files, each read once while its signature stays the same; and writing whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from stat import S_ISREG
from typing import IO

from pipeline.core.globs import PATTERN, regex
from pipeline.core.graph import Ports
from pipeline.edge.noop import NOTHING
from pipeline.edge.state import signature, signed

# A file written this recently may be written again within the same tick of the file system's clock.
TICK_NS = 50_000_000
_SKIPPED = {".git", "__pycache__", ".coppice", ".lake"}
_CHUNK = 1 << 20
FOLDER = "folder"  # stands where a file has its sha256


# What a rename leaves as it is, and a write does not: time of the last write, number, size.
Version = tuple[int, int, int]

# A signature, a content, or a content and the signatures of what is behind a folder or pattern.
Mark = int | str | tuple[str | tuple[str, int] | None, ...] | None


class Files:
    """Answers "what is in this path now" for files, folders (`src`) and patterns (`src/**/*.py`)."""

    def __init__(self, known: Mapping[str, tuple[int, str]] | None = None) -> None:
        self._known: dict[str, tuple[int, str]] = dict(known or {})
        self._unsure: set[str] = set()
        self._own: dict[str, int] = {}
        self._groups: dict[str, str | None] = {}  # folders and patterns, as they were first found
        self.watched: dict[str, list[str]] = {}
        self.moved: set[str] = set()  # read twice and found different: what was judged by the first reading is in doubt

    def content(self, path: str) -> str | None:
        """sha256 of what is there, None when nothing is."""
        known = self._unchanged(path)
        if known is not None:
            return known
        if is_pattern(path) or os.path.isdir(path):
            return self._content_of_many(path)
        return self._read(path)

    def _unchanged(self, path: str) -> str | None:
        """What was found in a file before, if its signature is still the same."""
        known = self._known.get(path)
        if known is None or known[1] == FOLDER or path in self._unsure or known[0] != signature(path):
            return None
        return known[1]

    def _read(self, path: str) -> str | None:
        """Read until it stays the same for as long as that takes."""
        while True:
            before, seen_at = signature(path), time.time_ns()
            if before == NOTHING:
                return None
            with suppress(FileNotFoundError):  # gone meanwhile, as an editor's own files go: look again
                if not S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for without end
                    raise OSError(errno.EINVAL, "not a plain file", path)
                content, written = sha_of(path), os.stat(path).st_ctime_ns
                if signature(path) == before:
                    break
        if self._known.get(path, (0, content))[1] != content:
            self.moved.add(path)
        if written > seen_at - TICK_NS:
            self._unsure.add(path)  # before it is known: another thread must not take it for certain
            self._known[path] = (before, content)
        else:
            self._known[path] = (before, content)
            self._unsure.discard(path)
        return content

    def _content_of_many(self, path: str) -> str | None:
        digest = sha256()
        watched: list[str] = []
        found = not is_pattern(path)  # an empty folder is something; a pattern without a match is a typo
        for name, is_file in _walk(path):
            watched.append(name)
            if is_file and (inside := self._unchanged(name) or self._read(name)):
                found = True
                digest.update(entry(name, inside))
            elif not is_file:
                self._watch(name)
        self.watched[path] = watched
        content = digest.hexdigest() if watched and found else None
        if self._groups.setdefault(path, content) != content:
            self.moved.add(path)
        return content

    def _watch(self, folder: str) -> None:
        """A file that appears or goes changes the signature of its folder."""
        self._known[folder] = (signature(folder), FOLDER)
        young = os.stat(folder).st_ctime_ns > time.time_ns() - TICK_NS
        (self._unsure.add if young else self._unsure.discard)(folder)

    def marks(self, contents: Mapping[str, str | None]) -> dict[str, Mark]:
        """What to compare with later, of inputs whose contents were just asked for."""
        return {path: self._mark(path, content) for path, content in contents.items()}

    def _mark(self, path: str, content: str | None) -> Mark:
        if path in self.watched:
            return self._group_mark(path, content, self.watched[path])
        known = self._known.get(path)
        if known is None or known[1] != content:
            return ""  # another thread has read it anew: it was edited, and nothing matches
        return (content, (path, known[0])) if path in self._unsure else known[0]

    def _group_mark(self, path: str, content: str | None, behind: Sequence[str]) -> Mark:
        """Files and their signatures; not those of folders, which change when Python leaves compiled files there."""
        known = [(name, self._known.get(name, (0, ""))) for name in behind]
        return (content, *((name, row[0]) for name, row in known if row[1] != FOLDER))

    def touched(self, path: str, mark: Mark) -> bool:
        """Was an input written to since, even if it is the same again?"""
        if isinstance(mark, int):
            return mark != signature(path)
        content = self.content(path)
        if isinstance(mark, tuple):
            return mark != self._group_mark(path, content, self.watched.get(path, [path]))
        return mark != content

    def wrote(self, path: str, content: str, was: Version | None = None) -> None:
        """We put `content` there ourselves, by renaming the file that `was` there; believed while it is that one."""
        stat = os.stat(path)
        if was is not None and was != version(stat):
            return  # written to since it was read
        self._known[path] = (signed(stat), content)
        self._unsure.discard(path)
        self._own[path] = stat.st_ctime_ns

    def remembered(self, paths: Sequence[str]) -> tuple[list[int], list[str]]:
        """Signatures and contents; 0 never matches, so what is not certain is read again."""
        latest = time.time_ns() - TICK_NS
        unsure = self._unsure | {path for path, written in self._own.items() if written >= latest}
        known, nothing = self._known, (0, "")
        rows = [known.get(path, nothing) for path in paths]
        signatures = [0 if path in unsure else row[0] for path, row in zip(paths, rows, strict=True)]
        return signatures, [row[1] for row in rows]


def version(stat: os.stat_result) -> Version:
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def entry(name: str, content: str | None) -> bytes:
    """A file as part of the folder or pattern it belongs to.  Names need not be UTF-8."""
    return b"%b\0%b\n" % (os.fsencode(name), str(content).encode())


def is_pattern(path: str) -> bool:
    """A file that is there is meant, even if its name has characters of patterns."""
    return PATTERN.search(path) is not None and not os.path.lexists(path)


def matches(path: str) -> list[str]:
    """The files a pattern stands for; a file or a folder stands for itself."""
    if not is_pattern(path):
        return [path]
    return [name for name, is_file in _walk(path) if is_file]


def files_behind(path: str) -> list[str]:
    """The files in a folder, or that match a pattern; a file stands for itself."""
    return [name for name, is_file in _walk(path) if is_file] if os.path.isdir(path) or is_pattern(path) else [path]


def matched(ports: Ports) -> dict[str, list[str]]:
    """The files behind each port."""
    return {port: [match for path in group for match in matches(path)] for port, group in ports}


def _walk(path: str) -> Iterator[tuple[str, bool]]:
    """Folders (False) to watch and files (True) meant, in a fixed order."""
    match = PATTERN.search(path) if is_pattern(path) else None
    top = os.path.dirname(path[: match.start()]) if match else path.rstrip("/") or "/"
    top = "" if top == "." else top
    wanted = re.compile(regex(path)) if match else None
    depth = None if not match or "**" in path else path.count("/") - (top.count("/") + 1 if top else 0)
    seen: set[str] = set()
    for folder, inner, names in os.walk(top or ".", followlinks=True):
        if (real := os.path.realpath(folder)) in seen:  # a link may lead round in a circle
            inner.clear()
            continue
        seen.add(real)
        here = os.path.relpath(folder, top or ".")
        level = 0 if here == "." else here.count(os.sep) + 1
        skipped = _SKIPPED if level or top else {*_SKIPPED, "runs"}  # a pattern above runs/ does not mean what is in it
        inner[:] = sorted(n for n in inner if n not in skipped) if depth is None or level < depth else []
        clean = os.path.normpath(folder) if top else ("" if here == "." else here)
        yield clean or ".", False
        for name in sorted(names):
            file = f"{clean}/{name}" if clean else name
            if (wanted is None or wanted.fullmatch(file)) and os.path.isfile(file):
                yield file, True


def sha_of(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        block = file.read(_CHUNK)
        if len(block) < _CHUNK:
            return sha256(block).hexdigest()
        digest = sha256(block)
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def write_whole(path: str, content: bytes, durable: bool = True) -> None:
    """A reader sees the old content or all of the new one; `durable` survives a power cut."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        write_all(draft, content, durable)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def write_all(path: str, content: bytes, durable: bool = False) -> None:
    """Raw writes may be cut short, by a full disk for one: go on until all is written or an error says why not."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        append_all(fd, content)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def append_all(fd: int, content: bytes) -> None:
    written = os.write(fd, content)
    while written < len(content):
        content = content[written:]
        written = os.write(fd, content)


def line_break(file: IO[bytes]) -> bytes:
    """What has to stand before the next line: whoever wrote the last one may have been killed before its end."""
    if not file.seek(0, os.SEEK_END):
        return b""
    file.seek(-1, os.SEEK_END)
    return b"" if file.read(1) == b"\n" else b"\n"


def sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
