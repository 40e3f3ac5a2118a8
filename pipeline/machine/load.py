"""CPUs that we may use, and the load on each.

What we may use is the smallest of what the scheduler allows this process and what its control groups (version 1 or 2)
and all groups around them allow; a quota may be a fraction of a CPU.
The files of the system are read below a root that tests can put elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

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
