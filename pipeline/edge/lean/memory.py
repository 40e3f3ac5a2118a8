"""How much memory a process takes, together with those that it started."""

from __future__ import annotations

from collections.abc import Sequence

import psutil

Family = Sequence[psutil.Process]


def family(pid: int) -> Family:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.Error:
        return []


def resident(processes: Family) -> int:
    """In bytes; what has ended has none."""
    return sum(map(_of_one, processes))


def _of_one(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
