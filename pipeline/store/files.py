"""Contents of files, each read once while its signature stays the same; files written whole or not at all; logs.

A file written within the last tick of the file system's clock is not believed: it may be written again without a new
signature.

A log grows by whole lines; a kill may leave a torn one at its end, which whoever appends next mends."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from operator import attrgetter
from stat import S_ISDIR, S_ISREG
from threading import Lock
from typing import IO

from pipeline.core.graph import GLOB, Ports, glob_regex
from pipeline.errors import writing
from pipeline.store.noop import NOTHING
from pipeline.store.state import signature, stat_signature

# A file written this recently may be written again within the same tick of the file system's clock.
TICK_NS = 50_000_000
_SKIPPED = {".git", "__pycache__", ".coppice", ".lake"}
_CHUNK = 1 << 20
FOLDER = "folder"  # stands where a file has its sha256
# What is asked of a path that leads to nothing ends so.
_NOWHERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
_LAST_BUILD = ""  # stands for the folders and patterns of the last build, where a folder or pattern is named


# The device and the number of a folder: the same by whatever name it is reached.
Place = tuple[int, int]

# What a rename leaves as it is, and a write does not: time of the last write, number, size.
Version = tuple[int, int, int]

# A content, and the signatures of the file that has it or of the files behind a folder or pattern.
Mark = tuple[str | tuple[str, int] | None, ...]


class Files:
    """Answers "what is in this path now" for files, folders (`src`) and patterns (`src/**/*.py`)."""

    def __init__(self, known: Mapping[str, tuple[int, str]] | None = None) -> None:
        self._known: dict[str, tuple[int, str]] = dict(known or {})
        self._unsure: set[str] = set()
        self._own: dict[str, int] = {}
        self._groups: dict[str, str | None] = {}  # folders and patterns, as they were first found
        self._listings: dict[str, dict[str, int]] = {}  # a folder -> its signature as each group found it
        self._noting = Lock()  # what one thread found is held against what another did, and noted, in one go
        self.watched: dict[str, list[str]] = {}
        self.unstable: set[str] = set()  # read twice and different: what was judged by the first reading is in doubt

    def content(self, path: str) -> str | None:
        """Give the sha256 of what is at `path`, None when nothing is."""
        known = self._unchanged(path)
        if known is not None:
            return known
        if is_pattern(path) or os.path.isdir(path):
            return self._content_of_many(path)
        return self._read(path)

    def _unchanged(self, path: str) -> str | None:
        """Content found in a file before, if its signature is still the same."""
        known = self._known.get(path)
        if known is None or known[1] == FOLDER or path in self._unsure or known[0] != signature(path):
            return None
        return known[1]

    def _read(self, path: str) -> str | None:
        """Read a file until it stays the same for as long as the reading takes."""
        while True:
            before, seen_at = signature(path), time.time_ns()
            if before == NOTHING and _stat(path) is None:
                return None
            with suppress(FileNotFoundError):  # gone meanwhile, as an editor's own files go: look again
                if not S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for without end
                    raise OSError(errno.EINVAL, "not a plain file", path)
                content, written = file_sha256(path), os.stat(path).st_ctime_ns
                if signature(path) == before:
                    break
        with self._noting:
            if self._known.get(path, (0, content))[1] != content:
                self.unstable.add(path)
            if written > seen_at - TICK_NS:
                self._unsure.add(path)  # before it is known: another thread must not take it for certain
                self._known[path] = (before, content)
            else:
                self._known[path] = (before, content)
                self._unsure.discard(path)
        return content

    def _content_of_many(self, path: str) -> str | None:
        digest = sha256()
        behind: dict[str, int | None] = {}
        found = not is_pattern(path)  # an empty folder is something; a pattern without a match is a typo
        for name, seen in _walk(path):
            behind[name] = seen
            if seen is None and (inside := self._unchanged(name) or self._read(name)):
                found = True
                digest.update(digest_entry(name, inside))
        content = digest.hexdigest() if behind and found else None
        with self._noting:  # all of one listing, or of a later one: never some of each
            self.watched[path] = [*behind]
            for name, seen in behind.items():
                if seen is not None:
                    self._watch(name, path, seen)
            if self._groups.setdefault(path, content) != content:
                self.unstable.add(path)
        return content

    def _watch(self, folder: str, group: str, seen: int) -> None:
        """Note the signature of a folder for one group of files; a file that appears or goes changes it.

        Each group has its own, because a listing made for one says nothing of what another found earlier."""
        before = self._known.get(folder)
        if before is not None and before[1] != FOLDER:
            self.unstable.add(folder)  # it was a file
            before = None
        self._listings.setdefault(folder, {_LAST_BUILD: before[0]} if before else {})[group] = seen
        self._known[folder] = (seen, FOLDER)

    def marks(self, contents: Mapping[str, str | None]) -> dict[str, Mark]:
        """Make marks by which a later look sees if these inputs, just asked for, were written to."""
        return {path: self._mark(path, content) for path, content in contents.items()}

    def _mark(self, path: str, content: str | None) -> Mark:
        """Content and signatures of the files; not those of folders, which change when Python leaves files there."""
        known = [(name, self._known.get(name, (0, ""))) for name in self.watched.get(path, [path])]
        return (content, *((name, row[0]) for name, row in known if row[1] != FOLDER))

    def was_touched(self, path: str, mark: Mark) -> bool:
        """Check if an input was written to since, even if it is the same again."""
        try:
            return mark != self._mark(path, self.content(path))
        except OSError:
            return True  # it can be read no longer

    def note_written(self, path: str, content: str, was: Version | None = None) -> None:
        """Note that we put `content` there by renaming the file that `was` there; believed while it is that file."""
        stat = os.stat(path)
        if was is not None and was != file_version(stat):
            return  # written to since it was read
        self._known[path] = (stat_signature(stat), content)
        self._unsure.discard(path)
        self._own[path] = stat.st_ctime_ns

    def signatures(self, paths: Sequence[str]) -> tuple[list[int], list[str]]:
        """Signatures and contents; 0 never matches, so what is not certain is read again."""
        latest = time.time_ns() - TICK_NS
        # They changed between two looks: no signature is right for all that rests on them.
        disputed = {folder for folder, found in self._listings.items() if len({*found.values()}) > 1}
        unsure = self._unsure | disputed | {path for path, written in self._own.items() if written >= latest}
        known, nothing = self._known, (0, "")
        rows = [known.get(path, nothing) for path in paths]
        signatures = [0 if path in unsure else row[0] for path, row in zip(paths, rows, strict=True)]
        return signatures, [row[1] for row in rows]


def file_version(stat: os.stat_result) -> Version:
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def digest_entry(name: str, content: str | None) -> bytes:
    """Encode a file as part of the folder or pattern it belongs to.  Names need not be UTF-8."""
    return b"%b\0%b\n" % (os.fsencode(name), str(content).encode())


def is_pattern(path: str) -> bool:
    """Check if a path is a pattern: an existing file is meant as such, even with the characters of a pattern."""
    return GLOB.search(path) is not None and not os.path.lexists(path)


def files_behind(path: str) -> list[str]:
    """List the files in a folder or that match a pattern; a file stands for itself."""
    return [name for name, seen in _walk(path) if seen is None] if os.path.isdir(path) or is_pattern(path) else [path]


def files_by_port(ports: Ports) -> dict[str, list[str]]:
    """Map each port to the files behind it; a folder stands for itself."""
    return {
        port: [match for path in group for match in (files_behind(path) if is_pattern(path) else [path])]
        for port, group in ports
    }


def _walk(path: str) -> Iterator[tuple[str, int | None]]:
    """Yield, in a fixed order, files that are meant (None); folders and links to nothing, with signatures to watch.

    Each signature is taken before its folder or link is read.  What may not be read is an error."""
    top, depth, meant = _search_start(path)
    runs, _ = _folder_identity("runs")  # who reads what it is in does not mean it, by whatever way it is reached
    seen = {runs}
    todo = [(top, 0, False)]
    while todo:
        folder, level, linked = todo.pop()
        place, before = _folder_identity(folder or ".")
        if (level and (place != runs or linked)) or (place and not level):
            yield folder or ".", before
        if not place or (level and place in seen):
            continue  # a link may lead round in a circle
        if level and linked and os.path.basename(os.path.realpath(folder)) in _SKIPPED:
            continue
        seen.add(place)
        with suppress(FileNotFoundError, NotADirectoryError):  # gone meanwhile, which changes what it is watched by
            files, links, inner = _list_folder(folder, meant, depth is None or level < depth)
            yield from ((file, None) for file in files)
            yield from links
            todo += [(below, level + 1, is_link) for below, is_link in reversed(inner)]


def _search_start(path: str) -> tuple[str, int | None, Callable[[str], object]]:
    """Folder to start from, number of levels to look into below it (None for all), test for the files meant."""
    match = GLOB.search(path) if is_pattern(path) else None
    top = os.path.normpath(os.path.dirname(path[: match.start()]) if match else path)
    top = "" if top == "." else top
    if not match:
        return top, None, bool  # every file has a name
    depth = None if "**" in path else path.count("/") - (top.count("/") + 1 if top else 0)
    return top, depth, re.compile(glob_regex(path)).fullmatch


def _list_folder(
    folder: str, meant: Callable[[str], object], deeper: bool
) -> tuple[list[str], list[tuple[str, int]], list[tuple[str, bool]]]:
    """List a folder as far as it matters: files; links to nothing, with signatures; folders, and if they are links."""
    files, links, inner = [], [], []
    with os.scandir(folder or ".") as entries:
        for found in sorted(entries, key=attrgetter("name")):
            path = os.path.join(folder, found.name)
            entered = deeper and found.name not in _SKIPPED
            if not (is_meant := meant(path)) and not entered:
                continue
            with suppress(FileNotFoundError):
                if (nothing := _nothing_behind(found)) is not None:
                    links.append((path, nothing))
                elif found.is_dir():
                    inner += [(path, found.is_symlink())] if entered else []
                elif is_meant and found.is_file():
                    files.append(path)
    return files, links, inner


def _nothing_behind(entry: os.DirEntry[str]) -> int | None:
    """Signature of a link to neither file nor folder; one may appear there and leave no trace where the link is."""
    if not entry.is_symlink():
        return None
    stat = _stat(entry.path)
    if stat is None:
        return NOTHING
    return None if S_ISREG(stat.st_mode) or S_ISDIR(stat.st_mode) else stat_signature(stat)


def _folder_identity(folder: str) -> tuple[Place | None, int]:
    """Identity of a folder by whatever name, and its signature: 0, which never matches, if a change might keep it."""
    sure_before = time.time_ns() - TICK_NS
    try:
        stat = os.stat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None, 0
    if not S_ISDIR(stat.st_mode):
        return None, 0
    return (stat.st_dev, stat.st_ino), stat_signature(stat) if stat.st_ctime_ns <= sure_before else 0


def _stat(path: str) -> os.stat_result | None:
    """Look at what a path leads to; None when that is nothing."""
    try:
        return os.stat(path)
    except ValueError:  # a NUL in it
        return None
    except OSError as error:
        if error.errno in _NOWHERE:
            return None
        raise


def open_plain(path: str) -> IO[bytes]:
    """Open a file to read; OSError for what is no plain one: a pipe would be waited for without end."""
    return open(path, "rb", opener=_open_plain)


def _open_plain(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if S_ISREG(mode) or S_ISDIR(mode):  # of a folder the caller says what it is
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a plain file", path)


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def file_sha256(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        block = file.read(_CHUNK)
        if len(block) < _CHUNK:
            return sha256(block).hexdigest()
        digest = sha256(block)
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def write_whole(path: str, content: bytes, durable: bool = True) -> None:
    """Replace a file: readers see the old content or all of the new.  `durable` survives a power cut."""
    draft = f"{path}.{os.getpid()}.draft"
    try:
        with writing(path):
            write_all(draft, content, durable)
            os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def write_output(path: str, content: bytes) -> None:
    """Write where a person says: a file whole, behind a link if it is one; into a pipe or a device as it is."""
    with suppress(FileNotFoundError):
        if not S_ISREG(os.stat(path).st_mode):
            write_all(path, content)
            return
    write_whole(os.path.realpath(path), content, durable=False)


def write_all(path: str, content: bytes, durable: bool = False) -> None:
    """Write all of `content`; an error names `path`."""
    with writing(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            append_all(fd, content)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)


def append_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def append_lines(path: str, lines: bytes, cut: bool = False, durable: bool = False) -> None:
    """Append whole lines to a log, whose last one may have been cut short by a kill.

    Such a line is closed, so that what follows stands on its own; with `cut`, where every line has to be readable and
    nobody else appends, it is removed.  `durable` survives a power cut."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if cut:
            with open(fd, "rb", closefd=False) as file:
                os.ftruncate(fd, sum(map(len, whole_lines(file))))
        append_all(fd, missing_newline(fd) + lines)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    if durable:
        sync_path(os.path.dirname(path))


def missing_newline(fd: int) -> bytes:
    """The text before the next line of a log: nothing, unless the last one was cut short."""
    size = os.fstat(fd).st_size
    return b"\n" if size and os.pread(fd, 1, size - 1) != b"\n" else b""


def whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a log, each with its end.  A last one without was never written."""
    return (line for line in file if line.endswith(b"\n"))


class OwnedLog:
    """A log of text that one process has open.  Its first line says whose it is; `lines` are the others up to now.

    A torn line is cut off, and so is all from a line on that is no text any more."""

    def __init__(self, file: IO[bytes], owner: str) -> None:
        self._file, self._owner = file, owner
        content = b"".join(whole_lines(file))
        try:
            content.decode()
        except UnicodeDecodeError as error:
            content = content[: content.rfind(b"\n", 0, error.start) + 1]
        file.truncate(len(content))
        first, *self.lines = content.decode().split("\n")[:-1] or [""]
        if first != owner:
            self.begin()

    def begin(self) -> None:
        """From nothing."""
        self._file.truncate(0)
        self.lines = []
        self._append(self._owner)

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._append(line)

    def _append(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()


@contextmanager
def open_log(path: str, owner: str) -> Iterator[OwnedLog]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a+b") as file:
        file.seek(0)
        yield OwnedLog(file, owner)


def sync_path(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
