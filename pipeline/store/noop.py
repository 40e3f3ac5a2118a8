"""Fast check whether anything changed since the last build, at the cost of a stat a file.

Imports nothing that is not built in."""

from __future__ import annotations

import os
import sys
from _operator import length_hint  # `operator` itself is not built in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# What damaged bytes may raise while they are read as a state: then it is as if there were none.
DAMAGE = (OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError)
FORMAT = "coppice-state-5 " + sys.version

NOTHING = -1  # stands for the signature of what is not there

# What was found to be different before it was known that a build is needed: run -> time of its state, files.
LAST_LOOK: dict[str, tuple[int, list[str]]] = {}

LARGEST = 1 << 30  # bytes of a cache, of which ten million files need less
_PLAIN, _KIND = 0o100000, 0o170000  # as `stat` has them, which is not built in

# The files of one folder: its path up to the last slash, their names in it, their signatures.
FolderFiles = tuple[str, list[str], list[int]]
# The first part of a state file: complete, number of targets, runs it reads from, files.
Head = tuple[bool, int, tuple[str, ...], list[FolderFiles]]


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


def read_cache(path: str) -> bytes:
    """Read a file of ours, whatever lies there: OSError for a link, and for what is no file or far too large."""
    return _read_cache(path)[0]


def _read_cache(path: str) -> tuple[bytes, int]:
    """The content of a file of ours, and when it was written."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if status.st_mode & _KIND != _PLAIN or status.st_size > LARGEST:
            raise OSError(path)
        return file.read(), status.st_ctime_ns


def load_head(run: str) -> tuple[Head, bytes, int] | None:
    """Load the first part of the state of `run`, the whole file, and when it was written."""
    try:
        content, written = _read_cache(f"{folder(run)}/state")
        return parse_head(content), content, written
    except DAMAGE:
        return None


def parse_head(content: bytes) -> Head:
    """Parse the first part of a state file, as `state.dump_state` writes it.  DAMAGE for anything else.

    Numbers of eight bytes: of the bytes of this part, of files; then a signature for each file.  The rest is text, with
    a NUL after each word: no way to write it takes more time or memory than it has bytes."""
    size, count = memoryview(content[:16]).cast("q")
    names_at = 16 + 8 * count
    signatures = memoryview(content[16:names_at]).cast("q").tolist()
    words = content[names_at:size].decode("utf-8", "surrogatepass").split("\0")
    if words[0] != FORMAT or len(signatures) != count or len(words) <= count:
        raise ValueError(content[:100])
    complete, targets, needed, folders = map(int, words[1:5])
    rows, names = words[5 + needed : len(words) - count - 1], words[len(words) - count - 1 : -1]
    grouped, at = [], 0
    for path, number in zip(rows[::2], rows[1::2], strict=True):
        end = at + int(number)
        grouped.append((path, names[at:end], signatures[at:end]))
        at = end
    if at != count or len(grouped) != folders:
        raise ValueError(content[:100])
    return bool(complete), targets, tuple(words[5 : 5 + needed]), grouped


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
        (complete, targets, needs, folders), _, written = loaded
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
