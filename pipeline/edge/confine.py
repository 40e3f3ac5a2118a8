"""Keeps a command from writing to a project, and from reading what is sealed: by Landlock, where the kernel has it.

Landlock's rules only ever allow, and what is allowed for a folder is allowed below it.  So all is allowed that lies
beside the way from / to the project.  The price: nothing new can be made in the folders on that way themselves.

Rules hold for a thread and for what it starts, for good: each command is started by a thread of its own."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from struct import pack
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all architectures
_VERSION = 1  # asks for it
_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_LEAST = 2  # before that nothing could be renamed from folder to folder
_WRITE_FILE, _READ_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 13, 1 << 14
_IN_FOLDERS = 0b1_1111_1111_0000 | _REFER  # making and removing files, folders, links, pipes, sockets, devices
_WITH_TRUNCATE = 3


class Confined(NamedTuple):
    """How a command is kept.  In `project` it writes to nothing but `writable`; it reads nothing of `unreadable`.

    All are absolute; what is empty holds nothing back.  Names of files in an unreadable folder can be seen."""

    writable: tuple[str, ...] = ()
    project: str = ""
    unreadable: tuple[str, ...] = ()

    @contextmanager
    def ready(self) -> Iterator[Callable[[Callable[[], T]], T]]:
        """For the block: calls a function in a thread of its own, so that what it starts is confined."""
        fd = _ruleset(self)
        try:
            yield lambda do: _in_thread(fd, do)
        finally:
            os.close(fd)


@lru_cache(maxsize=1)
def abi() -> int:
    """Which version of Landlock there is; 0 for none that would do."""
    if sys.platform != "linux":
        return 0
    found = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return int(found) if found >= _LEAST else 0


def shields(project: str) -> str:
    """What keeps commands from writing to the project, for a record; empty when nothing does.

    Where all is the project there is no way to it to allow what lies beside."""
    return f"landlock {abi()}" if abi() and os.path.realpath(project) != "/" else ""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _ruleset(confined: Confined) -> int:
    """An open ruleset; it can be used many times."""
    of_files = _WRITE_FILE | (_TRUNCATE if abi() >= _WITH_TRUNCATE else 0)
    write = (of_files | _IN_FOLDERS) if confined.project else 0
    read = _READ_FILE if confined.unreadable else 0
    fd = _asked(_CREATE, pack("=Q", write | read), ctypes.c_size_t(8), ctypes.c_uint32(0))
    try:
        for path, access in _rules(confined, write, read).items():
            _allow(fd, path, access, of_files | _READ_FILE)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _rules(confined: Confined, write: int, read: int) -> dict[str, int]:
    """What is allowed below each path."""
    rules: dict[str, int] = {}
    if write:
        outside = _beside([os.path.realpath(confined.project)])
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
    ways = {above for path in hidden for above in _above(path)} - hidden
    for folder in sorted(ways):
        with suppress(PermissionError), os.scandir(folder) as entries:  # what cannot be listed has nothing for us
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


def _allow(ruleset: int, path: str, access: int, of_files: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # gone meanwhile
    try:
        if not os.path.isdir(path):
            access &= of_files
        if access:
            _asked(_ADD, ctypes.c_int(ruleset), ctypes.c_int(_BENEATH), pack("=Qi", access, fd), ctypes.c_uint32(0))
    finally:
        os.close(fd)


def _in_thread(ruleset: int, do: Callable[[], T]) -> T:
    def restricted() -> T:
        _restrict(ruleset)
        return do()

    with ThreadPoolExecutor(1) as alone:
        return alone.submit(restricted).result()


def _restrict(ruleset: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc().prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero):
        raise _error()
    _asked(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def _asked(call: int, *words: object) -> int:
    found = _libc().syscall(ctypes.c_long(call), *words)
    if found < 0:
        raise _error()
    return int(found)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"Landlock: {os.strerror(number)}")
