"""Folders that somebody else had in hand: read and removed whatever is in them."""

from __future__ import annotations

import os
import shutil
import stat


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


def open_folders(path: str) -> None:
    """So that what is in them can be read and removed, whatever their mode was."""
    for folder, inner, _ in os.walk(path):
        for name in inner:
            below = f"{folder}/{name}"
            if not os.path.islink(below) and (mode := os.lstat(below).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(below, stat.S_IMODE(mode) | stat.S_IRWXU)


def delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        open_folders(path)
        shutil.rmtree(path)
    else:
        unlink(path)


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
