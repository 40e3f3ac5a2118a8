"""Usage of a tree of processes: its memory, also what nobody has mapped, its processor time, its number."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from pipeline.machine.process import children_of

PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


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
