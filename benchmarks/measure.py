"""Runs a command to its end and says what its whole process tree cost: wall, CPU, memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

LAUNCH = Path(__file__).with_name("launch.py")
PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 0.01
GRACE_SECONDS = 2.0
MEGABYTE = 1024.0 * 1024.0


class Failed(Exception):
    """A tool that did not do its work; its figures would mean nothing."""


@dataclass(frozen=True)
class Usage:
    """What one run of a tool cost, all its processes together; `peak_mb` is of the largest of them."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    tree_mb: float | None = None
    """The highest sum over its processes that was seen, where sampling was asked for."""


def adopt_orphans() -> None:
    """Processes a tool leaves behind become our children, so that they are counted and ended, not lost."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(command: list[str], cwd: Path, env: Mapping[str, str], log: Path, cap: float, sample: bool = False) -> Usage:
    """One measured run; `Failed` for an exit code, more than `cap` seconds, or processes left behind."""
    launcher = subprocess.Popen(
        [sys.executable, "-I", "-S", str(LAUNCH), str(log), *command],
        cwd=cwd, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with _sampled(launcher.pid) if sample else contextlib.nullcontext() as tree:
            printed, problem = launcher.communicate(timeout=cap)
    except subprocess.TimeoutExpired:
        raise Failed(f"took longer than {cap:g} s") from None
    finally:
        _end(launcher)
    if launcher.returncode:
        raise Failed(f"could not be started: {problem.strip()[-300:]}")
    orphans_cpu = _collect_orphans()
    usage = _parse(printed, log)
    largest = max([usage.peak_mb, *(tree or [])])
    return replace(usage, cpu_s=usage.cpu_s + orphans_cpu, tree_mb=largest if sample else None)


def _parse(printed: str, log: Path) -> Usage:
    code, wall, cpu, kilobytes = printed.split()
    if int(code):
        raise Failed(f"exit code {code}: {log.read_text(errors='replace').strip()[-600:]}")
    return Usage(float(wall), float(cpu), int(kilobytes) / 1024.0)


def _end(launcher: subprocess.Popen[str]) -> None:
    """Kills what a run that was cut short still has running."""
    if launcher.returncode is not None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(launcher.pid).children(recursive=True):
            process.kill()
    launcher.kill()
    launcher.communicate()
    _kill_adopted()


def _collect_orphans() -> float:
    """The CPU of adopted processes that have ended; one that stays alive is an error."""
    deadline = time.monotonic() + GRACE_SECONDS
    cpu = 0.0
    while psutil.Process().children():
        pid, _, usage = os.wait4(-1, os.WNOHANG)
        cpu += usage.ru_utime + usage.ru_stime
        if not pid and time.monotonic() > deadline:
            names = _kill_adopted()
            raise Failed(f"left processes behind: {', '.join(names)}")
        if not pid:
            time.sleep(SAMPLE_SECONDS)
    return cpu


def _kill_adopted() -> list[str]:
    adopted = psutil.Process().children(recursive=True)
    names = [process.name() for process in adopted]
    for process in adopted:
        process.kill()
    psutil.wait_procs(adopted)
    return names


@contextlib.contextmanager
def _sampled(launcher: int) -> Iterator[list[float]]:
    """Fills a list with the memory, in MB, of all processes below the launcher, every few milliseconds."""
    sums: list[float] = []
    stop = threading.Event()
    thread = threading.Thread(target=_sample_until, args=(stop, launcher, sums))
    thread.start()
    try:
        yield sums
    finally:
        stop.set()
        thread.join()


def _sample_until(stop: threading.Event, launcher: int, sums: list[float]) -> None:
    while not stop.wait(SAMPLE_SECONDS):
        with contextlib.suppress(psutil.NoSuchProcess):
            sums.append(sum(map(_resident, psutil.Process(launcher).children(recursive=True))))


def _resident(process: psutil.Process) -> float:
    """In MB; nothing for a process that has ended, or is still a view of its parent's memory."""
    try:
        return 0.0 if _not_yet_itself(process) else float(process.memory_info().rss) / MEGABYTE
    except psutil.NoSuchProcess:
        return 0.0


def _not_yet_itself(process: psutil.Process) -> bool:
    """Between vfork and exec a child has its parent's memory, which must not count twice."""
    parent = process.parent()
    if parent is None or process.cmdline() != parent.cmdline():
        return False
    return bool(process.memory_info().vms == parent.memory_info().vms)
