"""Folders that other programs wrote: made removable, deleted; their files read without waiting."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from errno import ENAMETOOLONG

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
