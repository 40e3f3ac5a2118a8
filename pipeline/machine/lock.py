"""Locks of the operating system, which end with their process: one builder a run, one that has the machine to itself.

States of a run:

    free    -> held    `lock_runs`; the holder writes run.lock.json and renews its heartbeat every HEARTBEAT_PERIOD
    held    -> free    the holder removes run.lock.json and ends, or is killed
    held    -> silent  no heartbeat for longer than somebody's patience
    held, silent -> held by another
                       takeover, when the user says so: the holder's process is ended first, if it is sure which one
                       that is, and the takeover is noted in events.jsonl

Who finds a run held is refused, without waiting.  Of several who take over, one has its turn.  A second file stays
locked while the guard of a killed build ends what that build left behind; the next holder waits for that."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from pipeline.core.text import printable_line
from pipeline.errors import RunLocked
from pipeline.machine.job import Job, StageFailed
from pipeline.machine.process import BuildStopping
from pipeline.store import noop
from pipeline.store.files import append_lines, write_whole
from pipeline.store.flock import LockHolders, LockWait, file_lock, is_file_locked, lock_file, try_lock, wait_for_lock
from pipeline.store.folders import restore_run

if TYPE_CHECKING:
    import psutil


HEARTBEAT_PERIOD = 5.0
# Who has been silent for less may only be late.
LEAST_PATIENCE = 3 * HEARTBEAT_PERIOD
HOLDER_VERSION = 1
AT_WORK = "at-work"  # the file of a build with the commands that run


class Holder(NamedTuple):
    """Content of run.lock.json: the process that has the lock of a run."""

    lock_version: int
    tree_run_id: str
    pid: int
    hostname: str
    platform: str
    python: str
    created_at: str
    last_heartbeat_at: str


def holder_path(run: str) -> str:
    return f"{noop.folder(run)}/run.lock.json"


def iso_time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")


def unix_time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def own_holder(run: str) -> Holder:
    """Holder record of this process, which has the lock now."""
    now, system = iso_time(time.time()), os.uname()
    platform = f"{system.sysname}-{system.release}-{system.machine}"
    python = ".".join(map(str, sys.version_info[:3]))
    return Holder(HOLDER_VERSION, run, os.getpid(), socket.gethostname(), platform, python, now, now)


def write_holder(holder: Holder) -> None:
    text = json.dumps(holder._asdict(), indent=1) + "\n"
    write_whole(holder_path(holder.tree_run_id), text.encode(), durable=False)


def read_holder(run: str) -> Holder | None:
    """Read the holder record; None in the moment before a new holder wrote it.  A killed holder's stays until then."""
    try:
        with open(holder_path(run), "rb") as file:
            fields = json.load(file)
        holder = Holder(*(fields[name] for name in Holder._fields))
        whole = isinstance(fields["pid"], int) and unix_time(holder.created_at) and unix_time(holder.last_heartbeat_at)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return holder if whole else None


@contextmanager
def heartbeats(holders: Sequence[Holder], period: float = HEARTBEAT_PERIOD) -> Iterator[None]:
    """Renew the heartbeat of `holders` for as long as the block takes."""
    over = Event()

    def beat() -> None:
        while not over.wait(period):
            now = iso_time(time.time())
            with suppress(OSError):  # a full disk, say: the build tells of it, and the next beat may get through
                for holder in holders:
                    write_holder(holder._replace(last_heartbeat_at=now))

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# For a build that heeds SIGTERM to end its commands, which get 3 s for that.
HOLDER_KILL_AFTER = 5.0
PAUSE = 0.02
# The clock by which the system tells when processes started may differ by a second.
TOLERANCE = 1.0


class Takeover(NamedTuple):
    """Permission to take `run` from its holder: at once, or after so many seconds without a heartbeat."""

    run: str
    force: bool
    patience: float


def lock_message(run: str, holder: Holder | None) -> str:
    """Message that a run is locked."""
    who = "another process that has just started"
    if holder:
        since = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(unix_time(holder.created_at)))
        heard = f"last heard of {_seconds_silent(holder):.0f} s ago"
        who = f"process {holder.pid} on {holder.hostname} since {since}, {heard}"
    return f"run {run} is being built by {who}. Run lock is active (not stale)"


def end_holder(takeover: Takeover) -> Holder:
    """End the process that holds the run; an error if that may not be."""
    run = takeover.run
    holder = read_holder(run)
    if holder is None:
        raise RunLocked(f"{lock_message(run, holder)}: it has got it just now; try again")
    if not takeover.force and _seconds_silent(holder) <= takeover.patience:
        later = f"it is stale after {takeover.patience:g} s; wait, or take it over at once with --force"
        raise RunLocked(f"{lock_message(run, holder)}: {later}")
    if holder.hostname != socket.gethostname():
        there = f"that process can only be ended there, on {holder.hostname}"
        raise RunLocked(f"{lock_message(run, holder)}, and not on this host, {socket.gethostname()}: {there}")
    _end_process(holder)
    return holder


def _seconds_silent(holder: Holder) -> float:
    return max(0.0, time.time() - unix_time(holder.last_heartbeat_at))


def _end_process(holder: Holder) -> None:
    import psutil

    try:
        process = psutil.Process(holder.pid)
        if _started_later(process, holder):
            return
        for end in (process.terminate, process.kill):
            end()
            if _gone_within(process, HOLDER_KILL_AFTER):
                return
        raise RunLocked(f"process {process.pid}, which builds {holder.tree_run_id}, does not end; look at it")
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise RunLocked(f"process {holder.pid} is another user's, who must end it: {error}") from error


def is_gone(holder: Holder) -> bool:
    """Check that the holder has surely ended, perhaps not reaped, or that its number is another process's now."""
    import psutil

    if holder.hostname != socket.gethostname():
        return False
    try:
        process = psutil.Process(holder.pid)
        return process.status() == psutil.STATUS_ZOMBIE or _started_later(process, holder)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _started_later(process: psutil.Process, holder: Holder) -> bool:
    """Check if a process started after the lock was taken, and so only has the same number as its holder."""
    return bool(process.create_time() > unix_time(holder.created_at) + TOLERANCE)


def _gone_within(process: psutil.Process, limit: float) -> bool:
    """Wait until a process has ended, reaped or not: its locks are free then."""
    import psutil

    last = time.monotonic() + limit
    while time.monotonic() < last:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(PAUSE)
    return False


def log_takeover(takeover: Takeover, before: Holder, after: Holder) -> None:
    why = "force" if takeover.force else f"no heartbeat for {takeover.patience:g} s"
    who = {"from": before._asdict(), "by": after._asdict()}
    with suppress(FileNotFoundError):  # if that process did not end in order, no command is to blame
        os.unlink(f"{noop.folder(takeover.run)}/{AT_WORK}")
    event = {"event": "lock_takeover", "at": round(time.time(), 3), **who, "why": why}
    path = f"runs/{takeover.run}/events.jsonl"
    append_lines(path, json.dumps(event, sort_keys=True).encode() + b"\n")


# A process that is being killed is not gone at once.
DYING = 0.1


def lock_path(run: str) -> str:
    return f"{noop.folder(run)}/lock"


def is_locked(run: str) -> bool | None:
    """Check if somebody has the lock of a run right now, without waiting for it; None where this user may not ask."""
    return is_file_locked(lock_path(run))


@contextmanager
def lock_runs(runs: Sequence[str], takeover: Takeover | None = None) -> Iterator[tuple[int, ...]]:
    """Hold the locks of `runs`.  Nobody waits for one, so no order is needed: the one to be taken over is first.

    Gives the files that the guard of this build must keep open.  While the guard of a killed build still ends what
    that build left behind, they are locked, and we wait for it."""
    first = takeover.run if takeover else ""
    order = sorted(runs, key=lambda run: (run != first, run))
    for run in order:
        restore_run(run, write=True)
    with ExitStack() as stack:
        held = [stack.enter_context(_lock_run(run, takeover if run == first else None)) for run in order]
        stack.enter_context(heartbeats([holder for holder, _ in held]))
        yield tuple(guard for _, guard in held)


@contextmanager
def _lock_run(run: str, takeover: Takeover | None) -> Iterator[tuple[Holder, int]]:
    with lock_file(lock_path(run)) as lock:
        if takeover is None:
            _acquire_free(run, lock)
        before = _acquire_by_takeover(takeover, lock) if takeover else None
        holder = own_holder(run)
        try:
            write_holder(holder)
            if takeover and before:
                log_takeover(takeover, before, holder)
            with file_lock(f"{noop.folder(run)}/guard") as guard:
                yield holder, guard
        finally:
            with suppress(FileNotFoundError):  # somebody has cleaned up
                os.unlink(holder_path(run))


def _acquire_free(run: str, lock: int) -> None:
    """Acquire a lock that nobody holds.

    A child of a killed build, between fork and exec, has it a moment longer: while the named holder is gone, it is
    about to be free."""
    asked = time.monotonic()
    while not try_lock(lock):
        holder, waited = read_holder(run), time.monotonic() - asked
        if waited > (HOLDER_KILL_AFTER if holder and is_gone(holder) else DYING):
            taking = f"a search over code is taken over with `coppice advance {run} --force`"
            advice = f"wait for it, or stop that process; {taking}"
            raise RunLocked(f"{lock_message(run, holder)}: {advice}")
        time.sleep(PAUSE)


def _acquire_by_takeover(takeover: Takeover, lock: int) -> Holder | None:
    """Acquire the lock from its holder, which is given.  Of several who try, one has its turn; the others are too
    late, even when the lock is free by then."""
    run = takeover.run
    with lock_file(f"{noop.folder(run)}/takeover") as turn:
        if not try_lock(turn):
            raise RunLocked(f"run {run} is being taken over by another process right now; wait for that one")
        if try_lock(lock):
            return None
        before = end_holder(takeover)
        last = time.monotonic() + HOLDER_KILL_AFTER
        while not try_lock(lock):  # its threads may end a moment after the process, and the lock with the last
            now = read_holder(run)
            if time.monotonic() > last or (now and now.created_at != before.created_at):
                raise RunLocked(f"{lock_message(run, now)}: the lock is not free yet; try again")
            time.sleep(PAUSE)
    return before


# --- The machine for oneself, for commands that time things: a lock that all builds of a user share.
#
# That nothing of the same build runs beside such a command is the schedule's business.  The place of the lock is the
# same for all builds of a user, whatever their temporary folders are.  Its file says for which target it is held.
LONGEST_NOTE = 300
LOCK_FOLDER = f"/tmp/coppice-{os.getuid()}"


@contextmanager
def exclusive_machine(job: Job) -> Iterator[None]:
    """Let no other build of this user time anything for the block; does nothing for a target that is not exclusive."""
    if not job.target.limits.exclusive:
        yield
        return
    begun, path = time.monotonic(), f"{own_folder(LOCK_FOLDER)}/exclusive"
    with lock_file(path) as lock:
        say, knows = partial(_say_waiting, job, lock), partial(_is_named, lock)
        if not wait_for_lock(lock, path, LockWait(lambda: job.processes.stopping, say, knows)):
            raise BuildStopping
        job.add_wait(time.monotonic() - begun)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {job.target.name}".encode(), 0)
        yield


def _note(lock: int) -> tuple[str, str]:
    """The process and the target for which the lock is, or was, held."""
    pid, _, target = os.pread(lock, LONGEST_NOTE, 0).decode(errors="replace").partition(" ")
    return pid, target


def _is_named(lock: int, holders: LockHolders) -> bool:
    """Check if whoever has the lock is the build that has written its name, and not something that only keeps it."""
    pid, target = _note(lock)
    return bool(target) and pid in map(str, holders.pids)


def _say_waiting(job: Job, lock: int, holders: LockHolders) -> None:
    (pid, target), who = _note(lock), holders.text
    if _is_named(lock, holders):
        who = f"{printable_line(target, LONGEST_NOTE)} (process {pid})"
        if int(pid) in _ancestors():
            raise StageFailed(f"{who} has the machine to itself and waits for this build: only one may be exclusive", 2)
    job.say(f"waits: {who} has the machine to itself")


def _ancestors() -> Iterator[int]:
    """The process that has started this one, the one that has started that, and so on, as far as the system tells."""
    pid = os.getppid()
    with suppress(OSError):  # it is gone, or this system does not tell
        while pid:
            yield pid
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])


def own_folder(folder: str) -> str:
    """The folder, made where there is none.  Anybody may write beside it, so it must be this user's and no link."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StageFailed(f"{folder} is not a folder of this user; it has to be removed", 2)
    return folder
