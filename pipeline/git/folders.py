"""Folders that other programs wrote: made removable, deleted; their files read without waiting."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Nested folders that we inspect: Python and the system's paths reach no further than about 1000.
_DEEPEST = 400


def unseen_by_git(path: str) -> list[str]:
    """Folders that git neither shows nor cleans: empty, unreadable or too deep ones, .git beside tracked files."""
    found: list[str] = []
    for folder, inner, names in _walk(path, lambda error: found.append(error.filename)):
        if not inner and not names:
            found.append(folder)
        if _is_deepest(path, folder):
            found.append(f"{path}/{os.path.relpath(folder, path).split('/')[0]}")
        if folder != path and ".git" in (*inner, *names):
            found.append(f"{folder}/.git")
            inner[:] = [name for name in inner if name != ".git"]
    return found


def make_removable(path: str) -> bool:
    """Make all folders below readable and removable; True when a repository is among them."""
    within = False
    for folder, inner, names in _walk(path):
        within |= folder != path and ".git" in map(str.lower, (*inner, *names))
        for name in inner:
            below = f"{folder}/{name}"
            if not os.path.islink(below) and (mode := os.lstat(below).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(below, stat.S_IMODE(mode) | stat.S_IRWXU)
    return within


def _walk(path: str, onerror: Callable[[OSError], object] | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    for folder, inner, names in os.walk(path, onerror=onerror):
        yield folder, inner, names
        if _is_deepest(path, folder):
            inner.clear()


def _is_deepest(path: str, folder: str) -> bool:
    return folder.count("/") - path.count("/") >= _DEEPEST


def delete_tree(path: str) -> None:
    """Delete a file, or a folder with all that is in it; nothing when it is not there."""
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


@contextmanager
def scratch_path(folder: str) -> Iterator[str]:
    """A path of its own for a file of git; afterwards the file and git's lock on it are removed."""
    path = f"{folder}/{os.urandom(8).hex()}.scratch"
    try:
        yield path
    finally:
        remove_file(path)
        remove_file(f"{path}.lock")


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
