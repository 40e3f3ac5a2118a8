"""Folders that other programs wrote: made removable, deleted; their files read without waiting.

And our own, where a program that may write to nothing can still take away their modes: they are given back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from errno import ENAMETOOLONG

from pipeline.errors import SpecError
from pipeline.store import noop

# Nested folders that we inspect: Python and the system's paths reach no further than about 1000.
_DEEPEST = 400


def make_removable(path: str, look: Callable[[str, list[str], list[str]], object] | None = None) -> bool:
    """Make all folders below readable and removable; True when a repository is among them.

    `look` gets each folder with the names of its folders and files, so that one walk does for both."""
    within = False
    for folder, inner, names, _ in walk_folders(path):
        if look:
            look(folder, inner, names)
        within |= folder != path and ".git" in map(str.lower, (*inner, *names))
        for name in inner:
            _let_in(f"{folder}/{name}")
    return within


def _let_in(folder: str) -> None:
    """Make a folder readable and removable; not one whose path is too long for the system, though it is there."""
    try:
        mode = os.lstat(folder).st_mode
    except OSError as error:
        if error.errno != ENAMETOOLONG:
            raise
        return
    if not stat.S_ISLNK(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)


def walk_folders(
    path: str, onerror: Callable[[OSError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str], bool]]:
    """Walk as `os.walk` does, and tell of each folder if it is too deep to look into those within."""
    for folder, inner, names in os.walk(path, onerror=onerror):
        is_deepest = folder.count("/") - path.count("/") >= _DEEPEST
        yield folder, inner, names, is_deepest
        if is_deepest:
            inner.clear()


def disarm_repository(folder: str, inner: list[str], names: list[str]) -> None:
    """Let a folder be no git repository, nor hold one: git runs what its settings say, for whoever only looks at it."""
    for name in [each for each in (*inner, *names) if each.lower() == ".git"]:
        delete_tree(f"{folder}/{name}")
    inner[:] = [name for name in inner if name.lower() != ".git"]
    names[:] = [name for name in names if name.lower() != ".git"]
    if {"objects", "commondir"} & {each.lower() for each in (*inner, *names)}:
        for name in filter(lambda each: each.lower() == "head", names):
            remove_file(f"{folder}/{name}")


def delete_tree(path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing when it is not there."""
    import shutil  # here: every start looks at modes
    import subprocess

    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        make_removable(path)
        try:
            shutil.rmtree(path)
        except (RecursionError, OSError):  # too deep for Python, as a program in an endless loop makes it
            for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
                subprocess.run([*words, "--", path], stderr=subprocess.DEVNULL, check=False)
            if os.path.lexists(path):
                shutil.rmtree(path)  # raises the reason
    else:
        remove_file(path)


def remove_file(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def read_file_text(path: str) -> str:
    """The text of a file; empty for all else, such as a pipe, which would block."""
    try:
        with open(path if os.path.isfile(path) else "/dev/null", "rb") as file:
            return os.fsdecode(file.read())
    except FileNotFoundError:  # pruned in this moment
        return ""


def restore_access(paths: Iterable[str], write: bool = False) -> None:
    """Make files and folders of ours readable again, and writable for `write`; the outer ones come first.

    Links are left alone, and so is what is not there.  SpecError for what is not ours and cannot be read."""
    for path in paths:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        is_folder = stat.S_ISDIR(status.st_mode)
        if not is_folder and not stat.S_ISREG(status.st_mode):
            continue
        needed = 0o400 | (0o100 if is_folder else 0) | (0o200 if write else 0)
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid() and not os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
            owner = f"belongs to user {status.st_uid} and cannot be read (mode {mode:04o})"
            raise SpecError(f"{path}: {owner}; `sudo chown -R {os.geteuid()} {path}` makes it yours")
        if status.st_uid == os.geteuid() and mode & needed != needed:
            os.chmod(path, mode | (0o700 if is_folder else 0o600))


def restore_run(run: str, write: bool = False) -> None:
    """Restore access to the folders of a run and to what is recorded of it, though not to its outputs."""
    own = noop.folder(run)
    restore_access(("runs", os.path.dirname(own), own), write)
    restore_access(_inside(own), write)


def restore_outputs(run: str) -> None:
    """Restore access to all that a run has, where nothing is known of what changed."""
    for folder, inner, names in os.walk(f"runs/{run}"):
        restore_access(f"{folder}/{name}" for name in (*inner, *names))
        inner[:] = [name for name in inner if not name.endswith(".git")]


def restore_ways(paths: Iterable[str]) -> None:
    """Restore access to what lies in `runs`, and to the folders on the way there."""
    seen: set[str] = set()
    for path in paths:
        if path.startswith("runs/"):
            parts = path.split("/")
            ways = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
            restore_access(way for way in ways if way not in seen)
            seen.update(ways)


def restore_store(folder: str, write: bool = False) -> None:
    """Restore access to the folders of a store; an entry that cannot be read is set aside when it is asked for."""
    restore_access([folder], write)
    restore_access(_inside(folder), write)
    for part in ("results", "objects"):
        restore_access(_inside(f"{folder}/{part}"), write)


def _inside(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []
