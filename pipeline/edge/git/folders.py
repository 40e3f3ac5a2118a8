"""Folders that somebody else had in hand: read and removed whatever is in them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager


def unseen_by_git(path: str) -> list[str]:
    """What git neither shows nor cleans away: empty folders, .git within a folder of which it knows files, and folders
    that may not be read."""
    found: list[str] = []
    for folder, inner, names in os.walk(path, onerror=lambda error: found.append(error.filename)):
        if not inner and not names:
            found.append(folder)
        if folder != path and ".git" in (*inner, *names):
            found.append(f"{folder}/.git")
            inner[:] = [name for name in inner if name != ".git"]
    return found


def open_folders(path: str) -> bool:
    """So that what is in them can be read and removed, whatever their mode was.  Is a repository within?"""
    within = False
    for folder, inner, names in os.walk(path):
        within |= folder != path and ".git" in map(str.lower, (*inner, *names))
        for name in inner:
            below = f"{folder}/{name}"
            if not os.path.islink(below) and (mode := os.lstat(below).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(below, stat.S_IMODE(mode) | stat.S_IRWXU)
    return within


def delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        open_folders(path)
        shutil.rmtree(path)
    else:
        unlink(path)


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
