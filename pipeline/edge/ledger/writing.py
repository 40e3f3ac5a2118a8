"""The one writer of a process: what is handed to it is on the disk when its future is done, many in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

from pipeline.edge.ledger.problem import LedgerProblem, told
from pipeline.edge.ledger.schema import open_to_write

# More than this in one commit makes the first of them wait for no good reason.
MOST = 5000


class Write(NamedTuple):
    """Statements that go together, each with the rows to run it for."""

    statements: Sequence[tuple[str, Sequence[Sequence[Any]]]]
    saved: Future[None]


class Writer:
    """A thread of its own, since a commit waits for the disk; what comes in meanwhile is gathered for the next."""

    def __init__(self, path: str) -> None:
        self._path, self._db = path, open_to_write(path)
        self._queue: SimpleQueue[Write | None] = SimpleQueue()
        self._lock, self._closed = Lock(), False
        self._thread = Thread(target=self._work, name=f"ledger {path}", daemon=True)
        self._thread.start()

    def write(self, *statements: tuple[str, Sequence[Sequence[Any]]]) -> Future[None]:
        saved: Future[None] = Future()
        saved.set_running_or_notify_cancel()  # from here on nobody can call it off: what is finished is kept
        with self._lock:
            if self._closed:
                raise LedgerProblem(f"{self._path}: closed already")
            self._queue.put(Write(statements, saved))
        return saved

    def close(self) -> None:
        """After all that was handed in is saved."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            batch = [self._queue.get()]
            while not self._queue.empty() and len(batch) < MOST:
                batch.append(self._queue.get())
            going = None not in batch
            self._save([write for write in batch if write is not None])
        self._db.close()

    def _save(self, batch: Sequence[Write]) -> None:
        """All or nothing; who handed it in hears of a fault by the future."""
        try:
            with told(self._path):
                self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is: without this thread everybody would wait for ever
            for write in batch:
                write.saved.set_exception(error)
        else:
            for write in batch:
                write.saved.set_result(None)

    def _commit(self, batch: Sequence[Write]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for write in batch:
                for statement, rows in write.statements:
                    self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
