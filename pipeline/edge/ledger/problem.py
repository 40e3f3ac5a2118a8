"""What can be wrong with a ledger, in one line that says which file and what would be right."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipeline.errors import SpecError

# Longer than any transaction of ours takes; who waits so long waits for something that hangs.
PATIENCE = 30.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class LedgerProblem(SpecError):
    """The ledger cannot be used; nothing of it was changed."""


@contextmanager
def told(path: str) -> Iterator[None]:
    """What SQLite says of `path`, in our words."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerProblem(f"{path}: {_what(path, error)}") from error


def _what(path: str, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it says where in SQLite
    if code in _BUSY:
        return f"locked by {_holders(path)} for more than {PATIENCE:g} s; end it, or name another ledger"
    if code in _DAMAGED:
        return damaged(str(error))
    return str(error)


def damaged(how: str) -> str:
    return f"damaged ({how}); move it away, and `sqlite3 FILE .recover` gets out of it what is left"


def _holders(path: str) -> str:
    """Which processes lock the file, where the system tells."""
    numbers = {os.stat(beside).st_ino for beside in (path, f"{path}-wal", f"{path}-shm") if os.path.exists(beside)}
    found: list[str] = []
    with suppress(OSError), open("/proc/locks") as locks:
        found = [words[4] for words in map(str.split, locks) if _locks(words, numbers)]
    others = sorted({pid for pid in found if pid != str(os.getpid())})
    return " and ".join(f"process {pid}" for pid in others) or "another process"


def _locks(words: list[str], inodes: set[int]) -> bool:
    """`1: POSIX ADVISORY WRITE 4711 08:01:1234 0 EOF`; one that waits has an arrow in front."""
    return len(words) > 5 and words[3] == "WRITE" and int(words[5].rpartition(":")[2]) in inodes
