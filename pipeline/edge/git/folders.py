"""Folders that somebody else had in hand: read and removed whatever is in them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# How many folders within each other we look into: Python and the paths of the system go no further than about 1000.
_DEEPEST = 400


def unseen_by_git(path: str) -> list[str]:
    """What git neither shows nor cleans away: empty folders, .git within a folder of which it knows files, folders that
    may not be read, and those with more folders within each other than can be named."""
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


def open_folders(path: str) -> bool:
    """So that what is in them can be read and removed, whatever their mode was.  Is a repository within?"""
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


def delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        open_folders(path)
        try:
            shutil.rmtree(path)
        except (RecursionError, OSError):
            _delete_any_depth(path)
    else:
        unlink(path)


def _delete_any_depth(path: str) -> None:
    """What is too deep for Python, because a program that went wrong never came to an end."""
    for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*words, "--", path], stderr=subprocess.DEVNULL, check=False)
    if os.path.lexists(path):
        shutil.rmtree(path)  # says why not


@contextmanager
def scratch(folder: str) -> Iterator[str]:
    """A name for a file of git's that nobody else has; afterwards the file and git's lock on it are gone."""
    path = f"{folder}/{os.urandom(8).hex()}.scratch"
    try:
        yield path
    finally:
        unlink(path)
        unlink(f"{path}.lock")


def unlink(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def text_of(path: str) -> str:
    """Nothing when it is not a file; a pipe would be waited for."""
    try:
        with open(path if os.path.isfile(path) else "/dev/null", "rb") as file:
            return os.fsdecode(file.read())
    except FileNotFoundError:  # pruned in this moment
        return ""
