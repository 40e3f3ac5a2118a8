"""Trouble by a seeded script: answers of a model that is out, and what befalls the machine.

Trouble with the model comes by the number of a request, that with the machine by how many answers were sent."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from benchmarks.clients.searched import Search
from tests.kit.scripted_models import Fault, Request, ScriptedModels

SHORT = (
    Fault("complaint", 429, 0.3, "rate limit reached", "rate_limit_exceeded"),
    Fault("complaint", 429, None, "rate limit reached", "rate_limit_exceeded"),
    Fault("complaint", 500, None, "internal server error"),
    Fault("complaint", 502, None, "bad gateway"),
    Fault("malformed"),
    Fault("cut"),
)
NO_CREDIT = Fault("complaint", 429, None, "You exceeded your current quota", "insufficient_quota")
SHARE = 0.12  # of requests that meet one of SHORT
REQUESTS = 2_000  # more than a night has
SLOW_AT, HUGE_AT, CREDIT_AT = (35, 150), (55, 120), 90
CREDIT_SECONDS, SLOW_SECONDS = 20.0, 12.0


class ModelTrouble:
    """The fault for a request, by its number; for a while after number CREDIT_AT there is no credit."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        chosen = random.Random(seed)
        short = {number: chosen.choice(SHORT) for number in range(1, REQUESTS) if chosen.random() < SHARE}
        late = dict.fromkeys(SLOW_AT, Fault("slow", seconds=SLOW_SECONDS))
        faults = {"short": short, "slow": late, "huge": dict.fromkeys(HUGE_AT, Fault("huge"))}
        self.faults = {
            number: fault for name, many in faults.items() if name not in without for number, fault in many.items()
        }
        self.credit_at = 0 if "credit" in without else CREDIT_AT
        self.until = 0.0

    def fault(self, number: int, _request: Request) -> Fault | None:
        if number == self.credit_at:
            self.until = time.monotonic() + CREDIT_SECONDS
        return NO_CREDIT if time.monotonic() < self.until else self.faults.get(number)


# Names of what can go wrong, each of which can be left out.
TROUBLES = ("short", "slow", "huge", "credit", "kill", "stop", "memory", "disk")


class MachineEvent(NamedTuple):
    """Something that befalls the machine after so many answers."""

    answers: int
    name: str  # `kill`, `stop`, `memory` or `disk`


MACHINE = (
    MachineEvent(12, "memory"),
    MachineEvent(25, "kill"),
    MachineEvent(40, "stop"),
    MachineEvent(60, "kill"),
    MachineEvent(75, "disk"),
    MachineEvent(95, "memory"),
    MachineEvent(110, "kill"),
)
STOPPED_SECONDS, FULL_SECONDS = 4.0, 3.0


class MachineTrouble:
    """A thread that does to the machine what the script says; `kills`: when coppice was killed."""

    def __init__(
        self, search: Search, models: ScriptedModels, disk: Path | None, without: frozenset[str] = frozenset()
    ) -> None:
        self.waiting = [event for event in MACHINE if event.name not in without and (event.name != "disk" or disk)]
        self.search, self.models, self.disk = search, models, disk
        self.process: subprocess.Popen[str] | None = None
        self.kills: list[float] = []
        self.befell: list[str] = []
        self.full: list[tuple[float, float]] = []
        self._ending = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> MachineTrouble:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.02):
            self._kill_victim()
            if self.waiting and self._is_building() and len(self.models.answers()) >= self.waiting[0].answers:
                event = self.waiting.pop(0)
                {"kill": self._kill, "stop": self._stop, "memory": self._arm, "disk": self._fill}[event.name]()
                self.befell.append(event.name)

    def _is_building(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _kill(self) -> None:
        assert self.process is not None
        self.kills.append(time.monotonic())
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    def _stop(self) -> None:
        """As a laptop that is closed; the model goes on talking."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGSTOP)
            self._ending.wait(STOPPED_SECONDS)
            os.kill(self.process.pid, signal.SIGCONT)

    def _arm(self) -> None:
        (self.search.place / "kill-sweep").touch()

    def _kill_victim(self) -> None:
        """The sweep that took the mark is killed from outside, as for want of memory."""
        with suppress(FileNotFoundError, ProcessLookupError):
            pid = int((self.search.place / "victim").read_text())
            (self.search.place / "victim").unlink()
            os.kill(pid, signal.SIGKILL)
            self.befell.append("sweep killed")

    def _fill(self) -> None:
        assert self.disk is not None
        filler, began = self.disk / "filler", time.monotonic()
        for size in (1 << 20, 1 << 12, 1):
            with filler.open("ab", buffering=0) as file, suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
        self._ending.wait(FULL_SECONDS)
        filler.unlink()
        self.full.append((began, time.monotonic()))


@contextmanager
def small_disk(place: Path, megabytes: int = 2_000) -> Iterator[Path | None]:
    """A file system of its own at `place`, so that it can be full; None where we may not mount one."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
