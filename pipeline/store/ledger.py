"""The ledger's file, an SQLite database: read while others write, and written by one thread of a process.

Many records are written in one commit.  A query sees all earlier commits.  Every attempt is kept before anything is
decided by it: a write is on the disk when its future is done.  The file is made when there is none, refused when it is
something else.  Every error is one line that says which file, and what would be right."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from pipeline.errors import SpecError
from pipeline.goals.attempts import (
    ATTEMPT_COLUMNS,
    GOAL_COLUMNS,
    WORTH_TRYING,
    Attempt,
    AttemptKey,
    CachedTactics,
    LedgerStats,
    OpenGoal,
    StrategyStats,
    attempt_of,
    attempt_row,
    goal_row,
    insert_into,
    json_list,
    open_goal_of,
    storable_text,
)
from pipeline.goals.bank import Goal

# A proof was found and has passed the check.
PROVED = "success = 1 AND verified = 1"
_SAME = "goal_hash = ? AND strategy = ? AND config = ? AND toolchain = ? AND budget = ?"
_FRONTIER = f"""
SELECT {", ".join(f"goals.{name}" for name in GOAL_COLUMNS)},
       count(tried.goal_hash), coalesce(max(tried.budget), 0) AS most
FROM goals LEFT JOIN attempts AS tried ON tried.goal_hash = goals.goal_hash
WHERE NOT EXISTS (SELECT 1 FROM attempts AS won WHERE won.goal_hash = goals.goal_hash AND {PROVED})
GROUP BY goals.goal_hash
ORDER BY most, goals.priority DESC, goals.rowid
"""
_BY_STRATEGY = f"""
SELECT strategy, count(*), sum({PROVED}), avg(time_seconds) FROM attempts GROUP BY strategy ORDER BY strategy
"""
_COUNTS = f"""
SELECT (SELECT count(*) FROM goals),
       (SELECT count(*) FROM goals WHERE goal_hash IN (SELECT goal_hash FROM attempts WHERE {PROVED})),
       (SELECT count(*) FROM goals WHERE goal_hash NOT IN (SELECT goal_hash FROM attempts)),
       (SELECT count(*) FROM attempts),
       (SELECT count(*) FROM tactic_cache)
"""

# Seconds: longer than any transaction of ours takes; after so long, the other process hangs.
PATIENCE = 30.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class LedgerReader:
    """A connection that cannot write, for any thread."""

    def __init__(self, path: str) -> None:
        self._path, self._db, self._lock = path, open_to_read(path), Lock()

    def recall(self, key: AttemptKey) -> Attempt | None:
        return next(iter(self._attempts(_SAME, key)), None)

    def attempts_by_key(self, toolchain: str) -> dict[AttemptKey, Attempt]:
        """Attempts made with a toolchain, to be looked up without a query each."""
        return {attempt.key: attempt for attempt in self._attempts("toolchain = ?", (toolchain,))}

    def attempts_on_goal(self, goal_hash: str) -> list[Attempt]:
        """Attempts at a goal in the order they were made."""
        return self._attempts("goal_hash = ? ORDER BY timestamp, id", (goal_hash,))

    def _attempts(self, condition: str, values: Sequence[Any]) -> list[Attempt]:
        rows = self._query(f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts WHERE {condition}", values)
        return [*map(attempt_of, rows)]

    def get_cached_tactics(self, goal_hash: str) -> CachedTactics | None:
        asked = "SELECT tactics, success_rate, avg_time, use_count FROM tactic_cache WHERE goal_hash = ?"
        rows = self._query(asked, (goal_hash,))
        return CachedTactics(tuple(json.loads(rows[0][0])), *rows[0][1:]) if rows else None

    def get_cached_premises(self, goal_hash: str, model: str) -> tuple[str, ...] | None:
        rows = self._query("SELECT premises FROM premise_cache WHERE goal_hash = ? AND model = ?", (goal_hash, model))
        return tuple(json.loads(rows[0][0])) if rows else None

    def frontier(self) -> list[OpenGoal]:
        """Goals without a proof: those never tried, then by the budget they had, the important ones first."""
        return [*map(open_goal_of, self._query(_FRONTIER))]

    def stats(self) -> LedgerStats:
        goals, proved, untried, attempts, cached = self._query(_COUNTS)[0]
        strategies = [StrategyStats(*row) for row in self._query(_BY_STRATEGY)]
        return LedgerStats(goals, proved, goals - proved, untried, attempts, cached, strategies)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _query(self, question: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock, sqlite_problems(self._path):
            return self._db.execute(question, values).fetchall()


# More than this in one commit makes the first of them wait for no good reason.
MOST = 5000


class PendingWrite(NamedTuple):
    """Statements that go together, each with the rows to run it for."""

    statements: Sequence[tuple[str, Sequence[Sequence[Any]]]]
    saved: Future[None]


# Of two equal attempts made at the same time, one with a proof counts.
_ATTEMPT = f"""
{insert_into("attempts", ATTEMPT_COLUMNS)}
ON CONFLICT (goal_hash, strategy, config, toolchain, budget) DO UPDATE SET
    success = excluded.success, verified = excluded.verified, tactics = excluded.tactics, error = excluded.error,
    time_seconds = excluded.time_seconds, timestamp = excluded.timestamp, metadata = excluded.metadata,
    subgoals = excluded.subgoals, run = excluded.run
WHERE excluded.success + excluded.verified > attempts.success + attempts.verified
"""
_GOAL = f"{insert_into('goals', GOAL_COLUMNS)} ON CONFLICT (goal_hash) DO"
_LEAVE = f"{_GOAL} NOTHING"
_RENEW = f"{_GOAL} UPDATE SET difficulty = excluded.difficulty, priority = excluded.priority"
# Tactics that hold are kept; others make place for the next proof.
_FOUND = f"""
INSERT INTO tactic_cache (goal_hash, tactics, success_rate, avg_time, use_count) VALUES (?, ?, 1, ?, 1)
ON CONFLICT (goal_hash) DO UPDATE SET
    tactics = excluded.tactics, success_rate = 1, avg_time = excluded.avg_time, use_count = 1
WHERE tactic_cache.success_rate <= {WORTH_TRYING}
"""
_PREMISES = """
INSERT INTO premise_cache (goal_hash, model, premises, use_count) VALUES (?, ?, ?, 0)
ON CONFLICT (goal_hash, model) DO UPDATE SET premises = excluded.premises
"""
_USED = """
UPDATE tactic_cache SET
    success_rate = (success_rate * use_count + ?) / (use_count + 1),
    avg_time = (avg_time * use_count + ?) / (use_count + 1),
    use_count = use_count + 1
WHERE goal_hash = ?
"""


_REFUSED = """
UPDATE attempts SET verified = 0, error = ?
WHERE goal_hash = ? AND toolchain = ? AND tactics = ? AND success = 1 AND verified = 1
"""
_NOT_AGAIN = "UPDATE tactic_cache SET success_rate = 0 WHERE goal_hash = ? AND tactics = ?"


class Ledger(LedgerReader):
    """Opened to write: by one thread of this process, while any number of threads and processes read.

    A write is on the disk when the future that its method returns is done. A commit waits for the disk; what comes in
    meanwhile is gathered for the next."""

    def __init__(self, path: str) -> None:
        self._writing = open_to_write(path)
        try:
            super().__init__(path)
        except BaseException:
            self._writing.close()
            raise
        self._queue: SimpleQueue[PendingWrite | None] = SimpleQueue()
        self._handing_in, self._closed = Lock(), False
        self._thread = Thread(target=self._work, name=f"ledger {path}", daemon=True)
        self._thread.start()

    def add_goals(self, goals: Iterable[Goal], renew: bool = True) -> Future[None]:
        """Add goals. `renew`: goals already there get the new difficulty and priority."""
        return self._write((_RENEW if renew else _LEAVE, [*map(goal_row, goals)]))

    def record(self, attempt: Attempt) -> Future[None]:
        """Record an attempt, once for each key; a proof goes into the tactic cache with it."""
        proof = [(attempt.key.goal_hash, json_list(attempt.tactics), attempt.time_seconds)]
        found = proof if attempt.success and attempt.verified else []
        return self._write((_ATTEMPT, [attempt_row(attempt)]), (_FOUND, found))

    def refuse(self, goal_hash: str, toolchain: str, tactics: Iterable[str], why: str) -> Future[None]:
        """Refuse a proof: the goal is open again, and its tactics are not what is tried first."""
        script = json_list(tactics)
        refused = (_REFUSED, [(storable_text(why), goal_hash, toolchain, script)])
        return self._write(refused, (_NOT_AGAIN, [(goal_hash, script)]))

    def used_cached_tactics(self, goal_hash: str, held: bool, seconds: float) -> Future[None]:
        """Count one more use of the cached tactics."""
        return self._write((_USED, [(int(held), seconds, goal_hash)]))

    def update_premise_cache(self, goal_hash: str, model: str, premises: Iterable[str]) -> Future[None]:
        """Cache the premises that `model` selected for a goal, the best first."""
        return self._write((_PREMISES, [(goal_hash, model, json_list(premises))]))

    def flush(self) -> None:
        """Wait until everything that was handed in is saved."""
        self._write().result()

    def close(self) -> None:
        """End the thread after all that was handed in is saved."""
        super().close()
        with self._handing_in:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        self._thread.join()  # the last one out may write: it leaves one file behind, not three

    def _write(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> Future[None]:
        saved: Future[None] = Future()
        saved.set_running_or_notify_cancel()  # from here on it cannot be cancelled: what is finished is kept
        with self._handing_in:
            if self._closed:
                raise LedgerProblem(f"{self._path}: closed already")
            self._queue.put(PendingWrite(statements, saved))
        return saved

    def _work(self) -> None:
        going = True
        while going:
            batch = [self._queue.get()]
            while not self._queue.empty() and len(batch) < MOST:
                batch.append(self._queue.get())
            going = None not in batch
            self._save([write for write in batch if write is not None])
        self._writing.close()

    def _save(self, batch: Sequence[PendingWrite]) -> None:
        """Commit all or nothing; a fault is raised by the futures."""
        try:
            with sqlite_problems(self._path):
                self._commit(batch)
        except Exception as error:  # noqa: BLE001 - any: without this thread all futures would wait for ever
            for write in batch:
                write.saved.set_exception(error)
        else:
            for write in batch:
                write.saved.set_result(None)

    def _commit(self, batch: Sequence[PendingWrite]) -> None:
        self._writing.execute("BEGIN IMMEDIATE")
        with self._writing:  # commits, or rolls back
            for write in batch:
                for statement, rows in write.statements:
                    self._writing.executemany(statement, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
