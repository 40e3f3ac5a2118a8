"""Who holds a run's lock and since when it has been heard of: run.lock.json, beside the lock while that is held."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from pipeline.edge import state
from pipeline.edge.files import write_whole
from pipeline.errors import writing

PERIOD = 5.0
# Who has been silent for less may only be late.
LEAST_PATIENCE = 3 * PERIOD
VERSION = 1

Holder = dict[str, Any]


def path_of(run: str) -> str:
    return f"{state.folder(run)}/run.lock.json"


def timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")


def seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def ours(run: str) -> Holder:
    """Of this process, which has the lock now."""
    now, system = timestamp(time.time()), os.uname()
    return {
        "lock_version": VERSION,
        "tree_run_id": run,
        "pid": os.getpid(),
        "hostname": socket.gethostname(),
        "platform": f"{system.sysname}-{system.release}-{system.machine}",
        "python": ".".join(map(str, sys.version_info[:3])),
        "created_at": now,
        "last_heartbeat_at": now,
    }


def tell(holder: Mapping[str, Any]) -> None:
    text = json.dumps(holder, indent=1) + "\n"
    path = path_of(holder["tree_run_id"])
    with writing(path):
        write_whole(path, text.encode(), durable=False)


def holder_of(run: str) -> Holder | None:
    """None in the moment after a holder got the lock, before it says so.  One that was killed is named until then."""
    try:
        with open(path_of(run), "rb") as file:
            found: Holder = json.load(file)
        whole = isinstance(found["pid"], int) and {*ours(run)} <= {*found}
        return found if whole and seconds(found["created_at"]) and seconds(found["last_heartbeat_at"]) else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def withdraw(run: str) -> None:
    with suppress(FileNotFoundError):  # somebody has cleaned up
        os.unlink(path_of(run))


@contextmanager
def beating(holders: Sequence[Holder], period: float = PERIOD) -> Iterator[None]:
    """Say again and again that we are there, for as long as the block takes."""
    over = Event()

    def beat() -> None:
        while not over.wait(period):
            now = timestamp(time.time())
            with suppress(OSError):  # a full disk, say: the build tells of it, and the next beat may get through
                for holder in holders:
                    tell({**holder, "last_heartbeat_at": now})

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
