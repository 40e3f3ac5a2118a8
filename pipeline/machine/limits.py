"""Limits on a command: what the kernel holds it to by itself, and what is watched and ended while it runs.

The kernel knows limits of a process (rlimit: open files, size of a file, and for users but root, how many processes).
Where we may make control groups, it holds the whole tree to its memory and number of tasks.  Elsewhere the tree of
processes is looked at, again and again.  What a command prints goes through a pipe, and its log ends at its limit.

States of a watched command:

    running  its output is copied, its tree is looked at
    over     a limit was reached: it was sent KILL, what it still prints is dropped
    ended    it has ended; the limit is the reason, if one was reached"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from itertools import count
from subprocess import Popen
from typing import IO, Any, NamedTuple, Protocol

from pipeline.core.text import byte_text
from pipeline.machine.failures import folder_bytes
from pipeline.machine.process import Starter, end_of_child
from pipeline.machine.usage import PAGE, nameless_bytes, tree_of, use_of

MB, GB = 1 << 20, 1 << 30
_CHUNK = 65536
# Seconds between two looks at a tree: short-lived commands are looked at soon, long ones cost little.
_SOON, _LATER, _SHORT_LIVED = 0.05, 0.25, 2.0
# Of what is full, or grew by less, nobody looks for the cause.
_GROWTH = 16 * MB


class CageLimits(NamedTuple):
    """Limits on a command and all that it starts; None: no limit.

    `memory`, `file_size`, `output` and `log` in bytes, `cpu` in seconds; `processes` counts threads too, `files` those
    that a process has open, `output` what it adds to the disks of its checkout and outputs."""

    memory: int | None = None
    cpu: float | None = None
    processes: int | None = None
    files: int | None = None
    file_size: int | None = None
    output: int | None = None
    log: int | None = None


@lru_cache(maxsize=1)
def default_limits() -> CageLimits:
    """Limits of what candidates run: so wide that only a mistake or an attack meets them."""
    installed = os.sysconf("SC_PHYS_PAGES") * PAGE
    return CageLimits(installed * 3 // 4, None, 4096, 8192, 8 * GB, 16 * GB, 64 * MB)


def make_limits(named: Mapping[str, Any], given: CageLimits) -> CageLimits:
    """The limits of a spec in place of those that are given."""
    return given._replace(**named)


# Signals of the kernel for limits of a process, and what they are called.
_SIGNALS = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file_size"} if hasattr(signal, "SIGXCPU") else {}


def limit_of_signal(number: int, limits: CageLimits) -> str:
    """The limit that a signal tells of; empty for others."""
    name = _SIGNALS.get(number, "")  # type: ignore[call-overload]
    value = getattr(limits, name) if name else None
    if value is None:
        return ""
    return f"{name} {value:g} s" if name == "cpu" else f"{name} {byte_text(value)}"


# --- Control groups.

_NUMBERS = count()
_GROUP = "coppice-"
# Seconds until the kernel has let go of who was killed; and how often that is waited for where it should not be needed.
_LET_GO, _PATIENCE = 0.002, 1000
_THREADS = "tasks"
# What holds memory on a disk, where it is not counted; and what it may be, as a part of the limit.
_SWAP = {"memory.limit_in_bytes": ("memory.memsw.limit_in_bytes", 1), "memory.max": ("memory.swap.max", 0)}


class _Hierarchy(NamedTuple):
    """Where groups may be made that hold their members to memory or tasks, and what their files are called.

    `takes_threads`: a thread can move itself there, as in version 1 alone."""

    folder: str
    memory: str
    tasks: str
    takes_threads: bool = False


@lru_cache(maxsize=1)
def _hierarchies() -> tuple[_Hierarchy, ...]:
    """The places in which we may make groups; none for most users.  Remains of killed builds are removed from them."""
    found = []
    for folder, memory, tasks in _places():
        place = _Hierarchy(folder, memory, tasks)
        trial = f"{folder}/{_GROUP}{os.getpid()}-{next(_NUMBERS)}"  # threads may try at once
        try:
            _remove_orphans(folder)
            os.mkdir(trial)
        except OSError:
            continue
        files = [name for name in (memory, tasks) if name]
        if all(os.access(f"{trial}/{name}", os.W_OK) for name in (*files, "cgroup.procs")):
            takes_threads = all(os.access(f"{each}/{_THREADS}", os.W_OK) for each in (folder, trial))
            found.append(place._replace(takes_threads=takes_threads))
        os.rmdir(trial)
    held = {bool(place.memory) for place in found} | {bool(place.tasks) for place in found}
    return tuple(found) if held else ()


def describe_groups() -> str:
    """Limits on a whole tree of processes that the kernel keeps by groups that we may make, in words; empty if none."""
    versions = {bool(place.memory and place.tasks) + 1 for place in _hierarchies()}
    held = [name for name in ("memory", "tasks") if any(getattr(place, name) for place in _hierarchies())]
    return f"version {max(versions)}: {', '.join(held)}" if held else ""


def _places() -> Iterator[tuple[str, str, str]]:
    """Our own group in each hierarchy that counts memory or tasks, with the names of its limits."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = {kind: path for _, kind, path in (line.rstrip("\n").split(":", 2) for line in file)}
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return
    for _, at, kind, options, *_ in mounts:
        words = set(options.split(","))
        if kind == "cgroup2" and "" in own:
            yield f"{at}{own['']}".rstrip("/"), "memory.max", "pids.max"
        if kind == "cgroup":
            for name, memory, tasks in (("memory", "memory.limit_in_bytes", ""), ("pids", "", "pids.max")):
                path = next((path for kinds, path in own.items() if name in kinds.split(",")), None)
                if name in words and path is not None:
                    yield f"{at}{path}".rstrip("/"), memory, tasks


def _remove_orphans(folder: str) -> None:
    """End and remove groups whose build was killed."""
    for name in os.listdir(folder):
        owner = name.removeprefix(_GROUP).partition("-")[0]
        if name.startswith(_GROUP) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            with suppress(OSError):
                _remove_group(f"{folder}/{name}")


def _members(folder: str) -> list[int]:
    with open(f"{folder}/cgroup.procs", "rb", buffering=0) as file:
        # 0: of another machine, whom we cannot see; and a thread of ours may be there, which starts a command
        return [pid for pid in map(int, file.read().split()) if pid not in (0, os.getpid())]


def _end_members(folder: str) -> None:
    """Kill the members of a group, until there are none; they start no others meanwhile."""
    members = _members(folder)
    if members:
        with suppress(FileNotFoundError), open(f"{folder}/pids.max", "r+", encoding="utf-8") as most:
            most.write("0")
    while members:
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LET_GO)
        members = _members(folder)


def _remove_group(folder: str) -> None:
    """End the members of a group, and of groups that they have made in it, and remove all of these."""
    for _ in range(_PATIENCE):
        try:
            os.rmdir(folder)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            return
        _end_members(folder)
        with os.scandir(folder) as entries:
            inner = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        for each in inner:
            _remove_group(each)
        time.sleep(_LET_GO)
    os.rmdir(folder)  # raises the reason


class Group:
    """Control groups of one command: the kernel itself holds its tree to them, and knows all its members."""

    def __init__(self, folders: Mapping[str, _Hierarchy], limits: CageLimits) -> None:
        """Make them in folders that are not there yet."""
        self._folders, self._processes = folders, limits.processes
        self._takes_threads = all(place.takes_threads for place in folders.values())
        for folder, place in folders.items():
            os.mkdir(folder)
            if place.memory and limits.memory is not None:
                _set_limit(folder, place.memory, limits.memory)
        self._limit_tasks(ours=int(self._takes_threads))

    @classmethod
    def make(cls, limits: CageLimits) -> Group | None:
        """Make groups for a command; None where there can be none."""
        name = f"{_GROUP}{os.getpid()}-{next(_NUMBERS)}"
        folders = {f"{place.folder}/{name}": place for place in _hierarchies()}
        return cls(folders, limits) if folders else None

    @property
    def folders(self) -> list[str]:
        return [*self._folders]

    @property
    def holds_memory(self) -> bool:
        return any(place.memory for place in self._folders.values())

    @property
    def holds_tasks(self) -> bool:
        return any(place.tasks for place in self._folders.values())

    @property
    def waiting_shell(self) -> Sequence[str]:
        """Words before those of a command, where threads cannot be moved: it stops first of all, until it is a member.

        It gets no way in, by which it could draw others in."""
        return () if self._takes_threads else ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")

    def admit(self, call: Callable[[Starter], Popen[bytes]], start: Starter) -> Popen[bytes]:
        """Start a command as a member, by `call`, which does it in a thread that is not our first one.

        That thread goes in and out by itself: to move another one, the kernel waits for all processors."""
        if not self._takes_threads:
            return self._admit_stopped(call(start))
        with ExitStack() as stack:  # opened here: that thread may have no right to
            inside, outside = (
                [stack.enter_context(open(f"{folder}/{_THREADS}", "wb", buffering=0)) for folder in folders]
                for folders in (self.folders, [place.folder for place in self._folders.values()])
            )
            child = call(partial(_start_among, inside, outside, start))
        self._limit_tasks(0)
        return child

    def _admit_stopped(self, child: Popen[bytes]) -> Popen[bytes]:
        """Let a command behind the waiting shell go on as a member."""
        try:
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError):  # killed meanwhile
                for folder in self._folders:
                    with open(f"{folder}/cgroup.procs", "w", encoding="utf-8") as door:
                        door.write(str(child.pid))
                os.kill(child.pid, signal.SIGCONT)
        except BaseException:
            child.kill()
            child.wait()
            raise
        return child

    def _limit_tasks(self, ours: int) -> None:
        """Set the limit on tasks, with room for so many threads of ours that go in to start it."""
        for folder, place in self._folders.items():
            if place.tasks and self._processes is not None:
                _set_limit(folder, place.tasks, self._processes + ours)

    def reached(self, limits: CageLimits) -> str:
        """The limit that the kernel enforced, in words; empty if none."""
        for folder in self._folders:
            if limits.memory is not None and any(
                _event(f"{folder}/{name}", "oom_kill") for name in ("memory.oom_control", "memory.events")
            ):
                return f"memory {byte_text(limits.memory)}"
            if limits.processes is not None and _event(f"{folder}/pids.events", "max"):
                return f"processes {limits.processes}"
        return ""

    def end_members(self) -> None:
        """End whoever is left, also one that has left its session and emptied its environment."""
        for folder in self._folders:
            _end_members(folder)

    def close(self) -> None:
        for folder in self._folders:
            _remove_group(folder)


def _start_among(inside: Sequence[IO[bytes]], outside: Sequence[IO[bytes]], start: Starter) -> Popen[bytes]:
    """Start a command in a thread that joins the groups for that long, so that its child belongs to them.

    Should it not come out again, they are closed by whoever made them, and end the child."""
    with ExitStack() as leaving:
        for door in outside:
            leaving.callback(door.write, b"0")
        for door in inside:
            door.write(b"0")
        return start()


def _set_limit(folder: str, file: str, value: int) -> None:
    """Set a limit of a group; one for memory is not to be had twice, the second time on a disk."""
    swap, part = _SWAP.get(file, ("", 0))
    for name, most in ((file, value), (swap, value * part)):
        if name == file or (name and os.path.exists(f"{folder}/{name}")):
            with open(f"{folder}/{name}", "wb", buffering=0) as limit:
                limit.write(b"%d" % most)


def _event(path: str, name: str) -> int:
    with suppress(OSError), open(path, encoding="utf-8") as file:
        return next((int(value) for key, value in map(str.split, file) if key == name), 0)
    return 0


# --- Watching.


class Watch:
    """Looks at what a command uses; `folders` are where it may write."""

    def __init__(self, limits: CageLimits, folders: Sequence[str], group: Group | None) -> None:
        self.limits, self.group = limits, group
        self._folders = folders
        self._devices = {os.stat(folder).st_dev for folder in folders if os.path.exists(folder)}
        self._base = self._used_bytes() if limits.output is not None else 0
        self._free = self._free_bytes()

    def look(self, pid: int) -> str:
        """The limit that its tree has passed, in words; empty while there is none."""
        limits = self.limits
        held = self.group is not None and self.group.holds_memory and self.group.holds_tasks
        if not held or limits.cpu is not None:
            tree = tree_of(pid)
            use = use_of(tree, limits.memory)
            if limits.memory is not None and not held:
                use = use._replace(memory=use.memory + self._nameless_bytes(tree, on_disk=False))
            if limits.memory is not None and use.memory > limits.memory:
                return f"memory {byte_text(use.memory)} of {byte_text(limits.memory)}"
            if limits.processes is not None and use.processes > limits.processes:
                return f"processes {use.processes} of {limits.processes}"
            if limits.cpu is not None and use.cpu > limits.cpu:
                return f"cpu {use.cpu:.0f} s of {limits.cpu:g} s"
        return self.reached() or self._look_at_disks(pid)

    def reached(self) -> str:
        """The limit that the kernel enforced: it killed one of them, or let them start no more."""
        return self.group.reached(self.limits) if self.group else ""

    def _look_at_disks(self, pid: int) -> str:
        """Files are counted only once a disk has lost room: that costs little, and misses nothing that matters."""
        if self.limits.output is None:
            return ""
        free = self._free_bytes()
        self._free = max(self._free, free)  # others free some meanwhile, behind which nothing may hide
        if self._free - free < min(_GROWTH, self.limits.output):
            return ""
        self._free = free
        used = self._used_bytes() + self._nameless_bytes(tree_of(pid), on_disk=True) - self._base
        return f"output {byte_text(used)} of {byte_text(self.limits.output)}" if used > self.limits.output else ""

    def _free_bytes(self) -> int:
        """Free bytes and, as if each had a page, free files of the disks."""
        found = 0
        for folder in self._folders:
            with suppress(OSError):
                disk = os.statvfs(folder)
                found += disk.f_bavail * disk.f_frsize + disk.f_favail * PAGE
        return found

    def _nameless_bytes(self, tree: Sequence[int], on_disk: bool) -> int:
        return sum(size for device, size in nameless_bytes(tree).items() if (device in self._devices) == on_disk)

    def _used_bytes(self) -> int:
        return sum(map(folder_bytes, self._folders))


class Redacting(Protocol):
    def feed(self, chunk: bytes, last: bool = False) -> bytes: ...


class CappedLog:
    """A log that a command cannot touch: it gets what comes through a pipe, redacted, up to its limit."""

    def __init__(self, log: IO[bytes], redactor: Redacting, most: int | None) -> None:
        self._log, self._redactor, self._most = log, redactor, most
        self._size = 0

    @property
    def reached(self) -> str:
        return f"log {byte_text(self._most or 0)}" if self._most is not None and self._size > self._most else ""

    def write(self, chunk: bytes) -> None:
        room = len(chunk) if self._most is None else max(0, self._most - self._size)
        self._size += len(chunk)
        if room:
            self._log.write(self._redactor.feed(chunk[:room]))

    def close(self, source: int) -> None:
        """Take what is in the pipe by now; whoever holds its other end may still be writing."""
        left = int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder)
        while left > 0 and not self.reached:
            chunk = os.read(source, min(left, _CHUNK))
            left -= len(chunk)
            self.write(chunk)
        self._log.write(self._redactor.feed(b"", last=True))
        self._log.flush()


def supervise(child: Popen[bytes], source: int, log: CappedLog, watch: Watch, kill: Callable[[], None]) -> str:
    """Copy what a child prints until it has ended, which nobody has asked for yet; the limit that it passed, or ''."""
    limit, began = "", time.monotonic()
    due = began + _SOON
    with end_of_child(child.pid) as ended:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while True:
            ready = dict(poll.poll(None if limit else max(0.0, due - time.monotonic()) * 1000))
            if source in ready:
                if chunk := os.read(source, _CHUNK):
                    log.write(chunk)
                else:
                    poll.unregister(source)
            if ended in ready:
                return limit
            now = time.monotonic()
            passed = log.reached
            if not passed and now >= due:
                passed, due = watch.look(child.pid), now + (_SOON if now - began < _SHORT_LIVED else _LATER)
            if passed and not limit:
                limit = passed
                kill()
