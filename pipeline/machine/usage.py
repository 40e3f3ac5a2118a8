"""Usage: limits that the kernel keeps for each process, what a tree of them uses by now, and how busy the machine is.

CPUs that we may use are the fewest of what the scheduler allows this process and what its control groups (version 1 or
2) and all groups around them allow; a quota may be a fraction of a CPU.  The files of the system are read below a root
that tests can put elsewhere."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from pipeline.machine.process import children_of

if TYPE_CHECKING:
    from pipeline.machine.limits import CageLimits

PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


# --- Limits of each process.

_MORE_SECONDS = 10  # until it is ended that heeds no limit of time


class _ProcessLimit(NamedTuple):
    """A limit of a process: its number, the letter and the unit that a shell has for it, soft and hard."""

    number: int
    letter: str
    unit: int
    soft: int
    hard: int


def _process_limits(limits: CageLimits, alone: bool) -> Iterator[_ProcessLimit]:
    """Limits that the kernel keeps for each process.  `alone`: it has users of its own, as the kernel counts processes
    by users: elsewhere, others of the same user would count too."""
    yield _ProcessLimit(resource.RLIMIT_CORE, "c", 1, 0, 0)
    if limits.files is not None:
        yield _ProcessLimit(resource.RLIMIT_NOFILE, "n", 1, limits.files, limits.files)
    if limits.file_size is not None:
        size = -(-limits.file_size // 512) * 512
        yield _ProcessLimit(resource.RLIMIT_FSIZE, "f", 512, size, size)
    if limits.cpu is not None:  # at the soft limit there is a signal that tells of it, at the hard one there is KILL
        seconds = int(limits.cpu) + 1
        yield _ProcessLimit(resource.RLIMIT_CPU, "t", 1, seconds, seconds + _MORE_SECONDS)
    if limits.processes is not None and alone:
        yield _ProcessLimit(resource.RLIMIT_NPROC, "p", 1, limits.processes, limits.processes)


_FIRST_TO_GO = 1000  # when memory is short


def limiting_shell(limits: CageLimits) -> list[str]:
    """Words before those of a command: a shell that takes on the limits of a process and becomes the command.

    A lower limit that holds already stays."""
    lines = [
        f"ulimit -{which} -{each.letter} {value // each.unit}"
        for each in _process_limits(limits, alone=False)
        for which, value in (("S", each.soft), ("H", each.hard))
    ]
    quiet = "; ".join(f"{{ {line}; }} 2>/dev/null" for line in lines)
    worst = f"echo {_FIRST_TO_GO} 2>/dev/null >/proc/self/oom_score_adj"
    return ["/bin/sh", "-c", f'{quiet}; {{ {worst}; }} 2>/dev/null; exec "$@"', "sh"]


def limit_process(pid: int, limits: CageLimits) -> None:
    """Set the same limits for a process that waits for it, and which has users of its own."""
    with suppress(ProcessLookupError, FileNotFoundError):  # it was killed meanwhile
        for each in _process_limits(limits, alone=True):
            hard = resource.prlimit(pid, each.number)[1]
            most = each.hard if hard == resource.RLIM_INFINITY else min(hard, each.hard)
            resource.prlimit(pid, each.number, (min(each.soft, most), most))
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as score:
            score.write(str(_FIRST_TO_GO))


# --- What a tree uses: its memory, also what nobody has mapped, its processor time, its number.


def tree_of(pid: int) -> list[int]:
    """A process and all that descends from it, as far as they are still its own."""
    found, left = [], [pid]
    while left:
        each = left.pop()
        found.append(each)
        left.extend(children_of(each))
    return found


class _Use(NamedTuple):
    memory: int
    processes: int
    cpu: float


def use_of(pids: Sequence[int], most: int | None) -> _Use:
    """The resources that a tree uses now.  Where memory is too much, pages that several share count once."""
    stats = {pid: stat for pid in pids if (stat := _stat(pid))}
    memory = sum(stat[2] for stat in stats.values())
    if most is not None and memory > most:
        memory = sum(_own_share(pid, resident) for pid, (_, _, resident) in stats.items())
    return _Use(memory, sum(stat[0] for stat in stats.values()), sum(stat[1] for stat in stats.values()))


def _stat(pid: int) -> tuple[int, float, int] | None:
    """Threads, CPU seconds with those of children that have ended, and resident bytes of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            words = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return int(words[17]), sum(map(int, words[11:15])) / _TICKS, int(words[21]) * PAGE


def _own_share(pid: int, resident: int) -> int:
    """Bytes of memory of a process, of those shared with others its part; all of them, where it lets nobody look."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next((int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:")), 0)
    except PermissionError:
        return resident
    except OSError:  # it has ended
        return 0


def nameless_bytes(pids: Iterable[int]) -> dict[int, int]:
    """Bytes of files without a name that processes have open, by device: what is removed while it is written to."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat()
                    if status.st_nlink == 0 and stat.S_ISREG(status.st_mode):
                        found[status.st_dev, status.st_ino] = status.st_blocks * 512
    sizes: dict[int, int] = {}
    for (device, _), size in found.items():
        sizes[device] = sizes.get(device, 0) + size
    return sizes


# --- The machine.

ROOT = Path("/")


def load_per_cpu(root: Path = ROOT) -> float:
    """Load average of the last minute per usable CPU."""
    return os.getloadavg()[0] / usable_cpus(root)


def usable_cpus(root: Path = ROOT) -> float:
    """CPUs that this process may use, as limited by its control groups; a quota may be a fraction."""
    allowed = getattr(os, "sched_getaffinity", None)  # macOS has none
    cpus = len(allowed(0)) if allowed else os.cpu_count() or 1
    return min([float(cpus), *_quotas(root)])


def _quotas(root: Path) -> Iterator[float]:
    """Yield CPUs by the limits of our groups and of those around them: each holds for all groups within it."""
    for line in _text_at(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount, names = root / "sys/fs/cgroup", ["cpu.max"]
        if controllers:  # version 1
            mount, names = mount / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        # within a container the path may be that of the host, which is not mounted: what is mounted is its own group
        for part in (PurePosixPath(path), *PurePosixPath(path).parents):
            folder = mount / str(part).strip("/")
            quota, _, period = " ".join(_text_at(folder / name).strip() for name in names).partition(" ")
            if quota.isdigit() and int(quota) and period:
                yield int(quota) / int(period)


def _text_at(path: Path) -> str:
    """Text of a file; empty where there is none: no control groups, or no limit."""
    return path.read_text() if path.is_file() else ""
