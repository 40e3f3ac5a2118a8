"""System calls of Linux's Landlock: rules that a thread, and all that it starts, can never drop again."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from struct import pack
from typing import TypeVar

T = TypeVar("T")

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on all architectures
_VERSION = 1  # asks for it
_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_LEAST = 2  # before that nothing could be renamed from folder to folder
_WITH_TRUNCATE = 3
_WITH_SCOPES = 6

READ_ACCESS = 1 << 2
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_IN_FOLDERS = 0b11_1111_1111_0000  # making, removing and moving files, folders, links, pipes, sockets, devices
_SIGNALS = 1 << 1  # only to whoever is restricted by the same rules, or started by such
_OF_FILES = READ_ACCESS | _WRITE_FILE | _TRUNCATE


@lru_cache(maxsize=1)
def abi() -> int:
    """Version of Landlock; 0 when there is none that would do."""
    if sys.platform != "linux":
        return 0
    found = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return int(found) if found >= _LEAST else 0


def write_access() -> int:
    """Rights to change anything, as far as this kernel can restrict them."""
    return _WRITE_FILE | _IN_FOLDERS | (_TRUNCATE if abi() >= _WITH_TRUNCATE else 0)


def open_ruleset(handled: int, rules: Mapping[str, int]) -> int:
    """Open a ruleset for any threads: of the rights `handled`, only those that `rules` allow below each path.

    Where the kernel can tell, other processes cannot be sent signals."""
    what = pack("=QQQ", handled, 0, _SIGNALS) if abi() >= _WITH_SCOPES else pack("=Q", handled)
    fd = _syscall(_CREATE, what, ctypes.c_size_t(len(what)), ctypes.c_uint32(0))
    try:
        for path, access in rules.items():
            _allow(fd, path, access)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # gone meanwhile
    try:
        if not os.path.isdir(path):
            access &= _OF_FILES
        _syscall(_ADD, ctypes.c_int(ruleset), ctypes.c_int(_BENEATH), pack("=Qi", access, fd), ctypes.c_uint32(0))
    finally:
        os.close(fd)


def run_within(ruleset: int, do: Callable[[], T]) -> T:
    """Run in a thread of its own, which alone is restricted."""

    def restricted() -> T:
        zero = ctypes.c_ulong(0)
        if _libc().prctl(_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), zero, zero, zero):
            raise _error()
        _syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
        return do()

    with ThreadPoolExecutor(1) as alone:
        return alone.submit(restricted).result()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(call: int, *words: object) -> int:
    found = _libc().syscall(ctypes.c_long(call), *words)
    if found < 0:
        raise _error()
    return int(found)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"Landlock: {os.strerror(number)}")
