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
    """How a command is kept.  In `project`, and in what is `apart` from it, it writes to nothing but `writable`; it
    reads nothing of `unreadable`.

    All are absolute; what is empty holds nothing back.  Names of files in an unreadable folder can be seen."""

    writable: tuple[str, ...] = ()
    project: str = ""
    unreadable: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    @contextmanager
    def ready(self) -> Iterator[Callable[[Callable[[], T]], T]]:
        """For the block: calls a function such that what it starts is confined, and we are not."""
        from pipeline.machine import landlock  # what it needs takes longer to import than most builds take

        write = landlock.write_access() if self.project else 0
        read = landlock.READ_ACCESS if self.unreadable else 0
        fd = landlock.open_ruleset(write | read, _rules(self, write, read))
        try:
            yield partial(landlock.run_within, fd)
        finally:
            os.close(fd)


def landlock_version() -> int:
    """The version of Landlock that holds commands here; 0 for none."""
    from pipeline.machine import landlock

    return landlock.abi()


def shield_name(project: str) -> str:
    """What keeps commands from writing to the project, for a record; empty when nothing does.

    Where all is the project there is no way to it to allow what lies beside."""
    return f"landlock {landlock_version()}" if os.path.realpath(project) != "/" and landlock_version() else ""


def _rules(confined: Confinement, write: int, read: int) -> dict[str, int]:
    """What is allowed below each path."""
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
    """All that is neither one of `hidden`, nor another name of it, nor a folder on the way to one."""
    hidden = {*hidden}
    files = {_file(path) for path in hidden}
    outermost = {path for path in hidden if hidden.isdisjoint(_above(path))}
    ways = {above for path in outermost for above in _above(path)}
    for folder in sorted(ways):
        # what cannot be listed, or is not there yet, has nothing for us
        with suppress(PermissionError, FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.path not in ways | hidden and not entry.is_symlink() and _file(entry.path) not in files:
                    yield entry.path


def _file(path: str) -> tuple[int, int] | str:
    """Which one it is, whatever its name."""
    try:
        s = os.lstat(path)
    except OSError:
        return path
    return s.st_dev, s.st_ino


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path
