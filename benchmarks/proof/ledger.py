"""How many attempts a second the ledger makes durable, in batches and one at a time, with readers beside; as JSON.

The peer, measured in the same run on the same disk, is a commit each without a thread that gathers: what a program
does that writes to SQLite as it goes."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from concurrent.futures import Future
from contextlib import closing
from threading import Event, Thread
from typing import Any

from pipeline.goals.attempts import (
    ATTEMPT_COLUMNS,
    Attempt,
    AttemptKey,
    attempt_row,
    insert_into,
)
from pipeline.goals.bank import Goal
from pipeline.store.ledger import Ledger, LedgerReader, open_to_write

TARGET_PER_SECOND, TARGET_AGE = 2000.0, 1.0
RECALLS = 2000


def attempt(n: int) -> Attempt:
    key = AttemptKey(f"{n:064x}", "micro", "c" * 16, "lean-4.28.0", 8.0)
    tactics = ("intro n", "induction n with", "simp_all", "omega") if n % 2 else ()
    return Attempt(key, "∀ n : Nat, n + 0 = n", bool(n % 2), 0.25, 1e9, tactics, verified=bool(n % 2))


def batched(path: str, count: int) -> dict[str, float]:
    """As the search does it: attempts end all the time, and each is told as soon as it is saved."""
    ages: list[float] = []
    with Ledger(path) as ledger:
        ledger.add_goals([Goal(f"goal {n}", "text", key=attempt(n).key.goal_hash) for n in range(count)]).result()
        start, cpu = time.perf_counter(), time.process_time()
        for n in range(count):
            handed = time.perf_counter()
            ledger.record(attempt(n)).add_done_callback(lambda _, at=handed: ages.append(time.perf_counter() - at))
        ledger.flush()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"per_second": count / seconds, "cpu_us_each": 1e6 * cpu / count, "oldest_unsaved_s": max(ages)}


def paced(path: str, rate: float, seconds: float) -> dict[str, float]:
    """At a rate that a machine of provers may reach: how old an attempt gets before it is safe."""
    ages: list[float] = []

    def saved(handed: float, _: Future[None]) -> None:
        ages.append(time.perf_counter() - handed)

    with Ledger(path) as ledger:
        begun = time.perf_counter()
        for n in range(int(rate * seconds)):
            time.sleep(max(0.0, begun + n / rate - time.perf_counter()))
            handed = time.perf_counter()
            ledger.record(attempt(n)).add_done_callback(lambda future, at=handed: saved(at, future))
        ledger.flush()
        taken = time.perf_counter() - begun
    centiles = statistics.quantiles(ages, n=100)
    return {
        "per_second": len(ages) / taken,
        "p50_ms": 1e3 * centiles[49],
        "p99_ms": 1e3 * centiles[98],
        "max_s": max(ages),
    }


def one_by_one(path: str, count: int) -> float:
    """The peer: the same table, a synced commit each."""
    insert = insert_into("attempts", ATTEMPT_COLUMNS)
    with closing(open_to_write(path)) as db:
        start = time.perf_counter()
        for n in range(count):
            db.execute(insert, attempt_row(attempt(n)))
        return count / (time.perf_counter() - start)


def read_beside(path: str, count: int, readers: int) -> dict[str, float]:
    """Batches again, while others ask without a pause."""
    asked, over = [0] * readers, Event()

    def ask(mine: int) -> None:
        with closing(LedgerReader(path)) as reader:
            while not over.is_set():
                reader.recall(attempt(asked[mine] % count).key)
                asked[mine] += 1

    Ledger(path).close()
    threads = [Thread(target=ask, args=(n,)) for n in range(readers)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    found = batched(path, count)
    over.set()
    for thread in threads:
        thread.join()
    return {**found, "readers": readers, "reads_per_second": sum(asked) / (time.perf_counter() - start)}


def asked(path: str, count: int) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as db:
        size = os.path.getsize(path) / db.execute("SELECT count(*) FROM attempts").fetchone()[0]
    times: dict[str, float] = {"bytes_each": size}
    start = time.perf_counter()
    with closing(LedgerReader(path)) as reader:
        times["open_ms"] = 1e3 * (time.perf_counter() - start)
        start = time.perf_counter()
        for n in range(RECALLS):
            reader.recall(attempt(n % count).key)
        times["recall_us"] = 1e6 * (time.perf_counter() - start) / RECALLS
        for name in ("frontier", "stats"):
            start = time.perf_counter()
            getattr(reader, name)()
            times[f"{name}_ms"] = 1e3 * (time.perf_counter() - start)
    return times


def measured(count: int, folder: str | None) -> dict[str, Any]:
    """`folder` is on the disk that is to be measured; without it that of TMPDIR."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        many = f"{place}/batched.db"
        found: dict[str, Any] = {
            "attempts": count,
            "batched": batched(many, count),
            "with_readers": read_beside(f"{place}/read.db", count, 4),
            "paced": paced(f"{place}/paced.db", 2 * TARGET_PER_SECOND, 3.0),
            "one_by_one_per_second": one_by_one(f"{place}/single.db", 1000),
            "asked": asked(many, count),
        }
    paced_, ratio = found["paced"], found["batched"]["per_second"] / found["one_by_one_per_second"]
    reached = paced_["per_second"] >= TARGET_PER_SECOND and paced_["max_s"] <= TARGET_AGE
    return {**found, "ratio_to_one_by_one": ratio, "reached": reached}
