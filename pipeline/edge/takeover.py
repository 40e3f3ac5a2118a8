"""Ends the process that holds a run's lock, when whoever wants the run says so and it is sure which process that is."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.edge.files import line_break
from pipeline.edge.heartbeat import Holder, holder_of, seconds
from pipeline.errors import Locked

if TYPE_CHECKING:
    import psutil

# For a build that heeds SIGTERM to end its commands, which get 3 s for that.
GRACE = 5.0
PAUSE = 0.02
# The clock by which the system tells when processes started may differ by a second.
TOLERANCE = 1.0


class Takeover(NamedTuple):
    """`run` may be taken from who holds it: at once, or after so many seconds without a heartbeat."""

    run: str
    force: bool
    patience: float


def held(run: str, holder: Holder | None) -> str:
    """How to say that a run is locked."""
    if holder is None:
        return f"run {run} is being built by another process that has just started. Run lock is active (not stale)"
    since = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds(holder["created_at"])))
    who = f"process {holder['pid']} on {holder['hostname']} since {since}"
    heard = f"last heard of {_age(holder):.0f} s ago"
    return f"run {run} is being built by {who}, {heard}. Run lock is active (not stale)"


def unseat(wanted: Takeover) -> Holder:
    """End the process that holds the run; an error if that may not be."""
    run = wanted.run
    holder = holder_of(run)
    if holder is None:
        raise Locked(f"{held(run, holder)}: it has got it just now; try again")
    if not wanted.force and _age(holder) <= wanted.patience:
        later = f"it is stale after {wanted.patience:g} s; wait, or take it over at once with --force"
        raise Locked(f"{held(run, holder)}: {later}")
    if holder["hostname"] != socket.gethostname():
        there = f"that process can only be ended there, on {holder['hostname']}"
        raise Locked(f"{held(run, holder)}, and not on this host, {socket.gethostname()}: {there}")
    _end(holder)
    return holder


def _age(holder: Holder) -> float:
    return max(0.0, time.time() - seconds(holder["last_heartbeat_at"]))


def _end(holder: Holder) -> None:
    import psutil

    try:
        process = psutil.Process(holder["pid"])
        if _is_younger(process, holder):
            return
        process.terminate()
        if not _gone_within(process, GRACE):
            process.kill()
            if not _gone_within(process, GRACE):
                raise Locked(f"process {process.pid}, which builds {holder['tree_run_id']}, does not end; look at it")
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise Locked(f"process {holder['pid']} is another user's, who must end it: {error}") from error


def is_gone(holder: Holder) -> bool:
    """It has ended for sure, though maybe nobody has asked how, or its number is another one's by now."""
    import psutil

    if holder["hostname"] != socket.gethostname():
        return False
    try:
        process = psutil.Process(holder["pid"])
        return process.status() == psutil.STATUS_ZOMBIE or _is_younger(process, holder)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _is_younger(process: psutil.Process, holder: Holder) -> bool:
    """Than its hold of the lock: that was another one, of the same number."""
    return bool(process.create_time() > seconds(holder["created_at"]) + TOLERANCE)


def _gone_within(process: psutil.Process, limit: float) -> bool:
    """Ended, though maybe nobody has asked how: its locks are free then."""
    import psutil

    last = time.monotonic() + limit
    while time.monotonic() < last:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(PAUSE)
    return False


def note(wanted: Takeover, before: Holder, after: Mapping[str, Any]) -> None:
    why = "force" if wanted.force else f"no heartbeat for {wanted.patience:g} s"
    event = {"event": "lock_takeover", "at": round(time.time(), 3), "from": before, "by": after, "why": why}
    path = f"runs/{wanted.run}/events.jsonl"
    with open(path, "a+b") as file:
        file.write(line_break(file) + json.dumps(event, sort_keys=True).encode() + b"\n")
