"""Confinement of a command: it cannot write to a project, nor read what is sealed, by Landlock.

Where the kernel has none, nothing holds it back.

Landlock's rules only ever allow, and what is allowed for a folder is allowed below it.  So all is allowed that lies
beside the way from / to the project.  The price: nothing new can be made in the folders on that way themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Confinement(NamedTuple):
    """Limits on a command: in `project` and `apart` it writes to `writable` alone; it reads nothing of `unreadable`.

    All paths are absolute; an empty field limits nothing.  Names of files in an unreadable folder can be seen."""

    writable: tuple[str, ...] = ()
    project: str = ""
    unreadable: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @contextmanager
    def ready(self) -> Iterator[Callable[[Callable[[], T]], T]]:
        """Give, for the block, a caller of functions: processes that they start are confined, this process is not."""
        from pipeline.machine import landlock  # what it needs takes longer to import than most builds take

        write = landlock.write_access() if self.project else 0
        read = landlock.READ_ACCESS if self.unreadable else 0
        fd = landlock.open_ruleset(write | read, _rules(self, write, read))
        try:
            yield partial(landlock.run_within, fd)
        finally:
            os.close(fd)


def landlock_version() -> int:
    """Version of Landlock that holds commands here; 0 for none."""
    from pipeline.machine import landlock

    return landlock.abi()


def shield_name(project: str) -> str:
    """Name of what keeps commands from writing to the project, for a record; empty when nothing does."""
    version = landlock_version() if os.path.realpath(project) != "/" else 0  # nothing lies beside /
    return f"landlock {version}" if version else ""


def _rules(confined: Confinement, write: int, read: int) -> dict[str, int]:
    """Map each path to what is allowed below it."""
    rules: dict[str, int] = {}
    if write:
        outside = _beside([*map(os.path.realpath, (confined.project, *confined.apart))])
        for path in (*outside, *map(os.path.realpath, confined.writable)):
            rules[path] = write
    if read:
        for path in _beside([os.path.realpath(path) for path in confined.unreadable]):
            rules[path] = rules.get(path, 0) | read
    return rules


def _beside(hidden: Iterable[str]) -> Iterator[str]:
    """Yield all that is neither one of `hidden`, nor another name of it, nor a folder on the way to one."""
    hidden = {*hidden}
    files = {_identity(path) for path in hidden}
    outermost = {path for path in hidden if hidden.isdisjoint(_folders_above(path))}
    ways = {above for path in outermost for above in _folders_above(path)}
    for folder in sorted(ways):
        # what cannot be listed, or is not there yet, has nothing for us
        with suppress(PermissionError, FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path not in ways | hidden and not entry.is_symlink() and _identity(entry.path) not in files:
                    yield entry.path


def _identity(path: str) -> tuple[int, int] | str:
    """Identity of a file, whatever its name."""
    try:
        s = os.lstat(path)
    except OSError:
        return path
    return s.st_dev, s.st_ino


def _folders_above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path
