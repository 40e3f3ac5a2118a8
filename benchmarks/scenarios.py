"""What is measured: how a project is made ready, which command runs, what it must have redone."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Usage
from benchmarks.peers import FILES
from benchmarks.project import Project


@dataclass(frozen=True)
class Scenario:
    """`prepare` makes the project ready and returns the outputs that must be made."""

    prepare: Callable[[Project], set[str]]
    judged: str = "ratio"
    """Which figure the promise is about; see `benchmarks.report`."""
    loads_only: bool = False
    from_nothing: bool = False
    sample: bool = False
    in_process_only: bool = False


SCENARIOS: dict[str, Scenario] = {
    "noop": Scenario(lambda project: set()),
    "edit": Scenario(lambda project: project.edit(project.rows[-1])),
    "edit-root": Scenario(lambda project: project.edit(project.rows[0])),
    "graph": Scenario(Project.forget_graph, loads_only=True),
    "cold": Scenario(Project.clean, from_nothing=True),
    "bookkeeping": Scenario(Project.clean, judged="bookkeeping_ms", from_nothing=True, in_process_only=True),
    "memory-noop": Scenario(lambda project: set(), judged="tree_mb", sample=True),
    "memory-cold": Scenario(Project.clean, judged="tree_mb", from_nothing=True, sample=True),
}
TOGETHER = {"memory": ("memory-noop", "memory-cold")}


def measure(project: Project, scenario: Scenario) -> Usage:
    """One checked run. Earlier writes are on disk first, so that nobody pays for somebody else's."""
    must_redo = scenario.prepare(project)
    before = project.fingerprints()
    os.sync()
    act = project.load_graph if scenario.loads_only else project.build
    usage = act(sample=scenario.sample)
    project.check(before, must_redo)
    return usage


def action_seconds(project: Project) -> float:
    """The time all actions of a built project take by themselves, called in a loop; outputs go beside it."""
    digest = _digest()
    scratch = project.folder.with_name(f"{project.folder.name}.alone")
    scratch.mkdir()
    jobs = [
        ([str(project.folder / path) for path in target.inputs], [str(scratch / str(number))])
        for number, target in enumerate(project.graph)
    ]
    started = time.perf_counter()
    for reads, writes in jobs:
        digest(reads, writes)
    seconds = time.perf_counter() - started
    project.put_aside(scratch)
    return seconds


def _digest() -> Callable[[list[str], list[str]], None]:
    spec = importlib.util.spec_from_file_location("action", FILES / "action.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    action: Callable[[list[str], list[str]], None] = module.digest
    return action


def count_fsyncs(project: Project) -> int | None:
    """How often one build from nothing asks the disk to be safe, or None where strace is not installed."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    trace = project.log.with_suffix(".strace")
    options = ("-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync,syncfs,sync", "-o", str(trace))
    must_redo = project.clean()
    before = project.fingerprints()
    project.build(prefix=(strace, *options))
    project.check(before, must_redo)
    calls = len(re.findall(r"\b(?:fsync|fdatasync|syncfs|sync)\(", trace.read_text()))
    trace.unlink()
    return calls


def fsync_ms(folder: Path, tries: int = 100) -> float:
    """What one small write with fsync costs on this disk: the floor under any crash-safe bookkeeping."""
    path = folder / "fsync"
    times = []
    for _ in range(tries):
        with path.open("wb") as file:
            file.write(b"x" * 200)
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return sorted(times)[tries // 2] * 1e3
