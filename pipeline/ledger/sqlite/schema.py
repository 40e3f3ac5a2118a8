"""Tables of the ledger, and its file: made when there is none, refused when it is something else.

Every error is one line that says which file, and what would be right."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import quote

from pipeline.errors import SpecError

# Seconds: longer than any transaction of ours takes; after so long, the other process hangs.
PATIENCE = 30.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class LedgerProblem(SpecError):
    """Error of a ledger that cannot be used; nothing of it was changed."""


@contextmanager
def sqlite_problems(path: str) -> Iterator[None]:
    """Turn an error of SQLite about `path` into a LedgerProblem."""
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerProblem(f"{path}: {_describe_error(path, error)}") from error


def _describe_error(path: str, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest of it says where in SQLite
    if code in _BUSY:
        return f"locked by {_lock_holders(path)} for more than {PATIENCE:g} s; end it, or name another ledger"
    if code in _DAMAGED:
        return damage_message(str(error))
    return str(error)


def damage_message(reason: str) -> str:
    return f"damaged ({reason}); move it away, and `sqlite3 FILE .recover` gets out of it what is left"


def _lock_holders(path: str) -> str:
    """Processes that lock the file, where the system tells."""
    inodes = {os.stat(beside).st_ino for beside in (path, f"{path}-wal", f"{path}-shm") if os.path.exists(beside)}
    others: set[str] = set()
    with suppress(OSError), open("/proc/locks") as locks:
        for words in map(str.split, locks):
            # `1: POSIX ADVISORY WRITE 4711 08:01:1234 0 EOF`; one that waits has an arrow
            if len(words) > 5 and words[3] == "WRITE" and int(words[5].rpartition(":")[2]) in inodes:
                others.add(words[4])
    return " and ".join(f"process {pid}" for pid in sorted(others - {str(os.getpid())})) or "another process"


# Says in the file's header whose it is, and which of the migrations below it has been through.
APPLICATION = int.from_bytes(b"Copl", "big")

TABLES = """
CREATE TABLE goals (
    goal_hash  TEXT PRIMARY KEY,
    goal_text  TEXT NOT NULL,
    context    TEXT NOT NULL,
    name       TEXT NOT NULL,
    difficulty REAL NOT NULL,
    priority   REAL NOT NULL
);
CREATE TABLE attempts (
    id           INTEGER PRIMARY KEY,
    goal_hash    TEXT NOT NULL,
    goal_text    TEXT NOT NULL,
    strategy     TEXT NOT NULL,
    success      INTEGER NOT NULL CHECK (success IN (0, 1)),
    time_seconds REAL NOT NULL,
    tactics      TEXT NOT NULL,
    timestamp    REAL NOT NULL,
    error        TEXT NOT NULL,
    verified     INTEGER NOT NULL CHECK (verified IN (0, 1)),
    subgoals     TEXT NOT NULL,
    metadata     TEXT NOT NULL,
    config       TEXT NOT NULL,
    toolchain    TEXT NOT NULL,
    budget       REAL NOT NULL,
    run          TEXT NOT NULL,
    UNIQUE (goal_hash, strategy, config, toolchain, budget)
);
CREATE INDEX attempts_by_search ON attempts (toolchain, config);
CREATE TABLE tactic_cache (
    goal_hash    TEXT PRIMARY KEY,
    tactics      TEXT NOT NULL,
    success_rate REAL NOT NULL,
    avg_time     REAL NOT NULL,
    use_count    INTEGER NOT NULL
);
CREATE TABLE premise_cache (
    goal_hash TEXT NOT NULL,
    model     TEXT NOT NULL,
    premises  TEXT NOT NULL,
    use_count INTEGER NOT NULL,
    PRIMARY KEY (goal_hash, model)
);
"""
# Statements from each version to the next; the first make the tables.
MIGRATIONS = (TABLES,)
VERSION = len(MIGRATIONS)


def open_to_write(path: str) -> sqlite3.Connection:
    """Open the file, checked before anything is changed.  Every commit is synced, so that it survives a power cut."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with sqlite_problems(path):
        _check_file(path)
        db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path)
        except BaseException:
            db.close()
            raise
    return db


def open_to_read(path: str) -> sqlite3.Connection:
    if not os.path.exists(path):
        raise LedgerProblem(f"{path}: there is no such ledger; a build of a run of `kind: proof` makes one")
    with sqlite_problems(path):
        _check_file(path)
        db = sqlite3.connect(_read_only(path), uri=True, timeout=PATIENCE, check_same_thread=False)
        version = _version(db)
    if version != VERSION:
        db.close()
        raise LedgerProblem(f"{path}: {_version_mismatch(version)}")
    return db


def _read_only(path: str) -> str:
    return f"file:{quote(os.path.abspath(path))}?mode=ro"


def _check_file(path: str) -> None:
    """Check whose file it is by the header; one of nobody's, made this moment by another process, is empty."""
    if not os.path.exists(path) or not os.path.getsize(path):
        return
    with closing(sqlite3.connect(_read_only(path), uri=True, timeout=PATIENCE)) as db:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != APPLICATION and tables:
            raise LedgerProblem(f"{path}: a database of some other program, not a ledger; name another file")
        if (version := _version(db)) > VERSION:
            raise LedgerProblem(f"{path}: {_version_mismatch(version)}")
        (state,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise LedgerProblem(f"{path}: {damage_message(state)}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _version_mismatch(version: int) -> str:
    by = "a newer Coppice; use that one" if version > VERSION else "an older Coppice; a build brings it up to date"
    return f"the ledger of {by} (its version is {version}, here it is {VERSION})"


def _prepare(db: sqlite3.Connection, path: str) -> None:
    if db.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise LedgerProblem(f"{path}: this file system cannot share a database (no WAL); name a ledger elsewhere")
    db.execute("PRAGMA synchronous = FULL")
    if _version(db) < VERSION:
        db.execute("BEGIN IMMEDIATE")
        for steps in MIGRATIONS[_version(db) :]:  # looked at again: another process may have done it meanwhile
            for statement in filter(str.strip, steps.split(";")):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
