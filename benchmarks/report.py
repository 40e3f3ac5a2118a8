"""From measured rounds to figures, and from figures to promises reached or missed."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.measure import Usage

BASELINE = "ninja"
PROMISES: dict[tuple[str, str], dict[int, float]] = {
    ("noop", "coppice"): {10_000: 1.0, 100_000: 0.8},
    ("noop", "doit-coppice"): {10_000: 2.7, 100_000: 2.7},
    ("edit", "coppice"): {10_000: 2.7},
    ("graph", "coppice"): {1_000: 1.2, 10_000: 1.2, 100_000: 1.2},
    ("cold", "coppice"): {1_000: 0.25, 10_000: 0.25, 100_000: 0.25},
    ("bookkeeping", "coppice"): {1_000: 3.0, 10_000: 3.0, 100_000: 3.0},
    ("memory-noop", "coppice"): {100_000: 75.0},
    ("memory-cold", "coppice"): {100_000: 500.0},
}
"""At most this much of the scenario's judged figure, by number of targets."""

VERDICTS = {True: "reached", False: "MISSED", None: f"not judged without {BASELINE}"}


@dataclass
class Rounds:
    """The usages of one tool in one scenario, by round; a tool that failed has an error and no figures."""

    usages: list[Usage] = field(default_factory=list)
    error: str = ""
    action_s: list[float] = field(default_factory=list)
    fsyncs: int | None = None


def result(
    scenario: str, judged: str, count: int, tool: str, rounds: Rounds, baseline: Sequence[Usage]
) -> dict[str, Any]:
    """One entry of the report."""
    entry: dict[str, Any] = {"scenario": scenario, "targets": count, "tool": tool}
    target = PROMISES.get((scenario, tool), {}).get(count)
    if rounds.error:
        return entry | {"error": rounds.error, "target": target, "reached": None if target is None else False}
    figures = _figures(rounds, baseline) | _bookkeeping(rounds, count)
    value = figures[judged]
    reached = None if target is None or value is None else value <= target
    return entry | figures | {"judged": judged, "target": target, "reached": reached}


def _figures(rounds: Rounds, baseline: Sequence[Usage]) -> dict[str, Any]:
    usages = rounds.usages
    trees = [usage.tree_mb for usage in usages if usage.tree_mb is not None]
    return {
        "cpu_s": round(median(usage.cpu_s for usage in usages), 4),
        "wall_s": round(median(usage.wall_s for usage in usages), 4),
        "ratio": _ratio([usage.cpu_s for usage in usages], [usage.cpu_s for usage in baseline]),
        "wall_ratio": _ratio([usage.wall_s for usage in usages], [usage.wall_s for usage in baseline]),
        "peak_mb": round(max(usage.peak_mb for usage in usages), 1),
        "tree_mb": round(max(trees), 1) if trees else None,
        "rounds": [{"cpu_s": round(usage.cpu_s, 4), "wall_s": round(usage.wall_s, 4)} for usage in usages],
    }


def _ratio(values: Sequence[float], baseline: Sequence[float]) -> float | None:
    """The median of the ratios within each round; None without a baseline."""
    if not baseline:
        return None
    return round(median(value / base for value, base in zip(values, baseline, strict=True)), 3)


def _bookkeeping(rounds: Rounds, count: int) -> dict[str, Any]:
    if not rounds.action_s:
        return {}
    extra = (usage.wall_s - alone for usage, alone in zip(rounds.usages, rounds.action_s, strict=True))
    return {
        "bookkeeping_ms": round(median(extra) / count * 1e3, 3),
        "action_ms": round(median(rounds.action_s) / count * 1e3, 3),
        "fsyncs_per_target": None if rounds.fsyncs is None else round(rounds.fsyncs / count, 2),
    }


def machine(versions: Mapping[str, str], work: Path, fsync: float) -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "disk": _filesystem(work),
        "fsync_ms": round(fsync, 3),
        "tools": dict(versions),
    }


def _cpu_model() -> str:
    if sys.platform != "linux":
        return platform.processor()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _filesystem(work: Path) -> str:
    """The kind of file system the work is on: without a real one, fsync means nothing."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if work.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "unknown"


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The report for a person."""
    return "\n".join(map(_line, results))


def _line(entry: Mapping[str, Any]) -> str:
    head = f"{entry['scenario']:12} {entry['targets']:>7} {entry['tool']:13}"
    if "error" in entry:
        return f"{head} ERROR {entry['error'].splitlines()[-1]}"
    ratio = "-" if entry["ratio"] is None else f"{entry['ratio']:.2f}"
    line = f"{head} cpu {entry['cpu_s']:9.3f} s  wall {entry['wall_s']:9.3f} s  ratio {ratio:>7}"
    line += f"  peak {entry['peak_mb']:7.1f} MB"
    line += "" if entry["tree_mb"] is None else f"  tree {entry['tree_mb']:7.1f} MB"
    line += "" if "bookkeeping_ms" not in entry else f"  bookkeeping {entry['bookkeeping_ms']:.3f} ms/target"
    if entry["target"] is None:
        return line
    return f"{line}  promised {entry['judged']} <= {entry['target']:g}: {VERDICTS[entry['reached']]}"
