"""One fuzzed project on disk: its model, what happened to it so far, and what was found wrong."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

import psutil

from benchmarks.fuzz import action, model
from benchmarks.fuzz.oracle import Truth, snapshot, truths

HANDED_DOWN = (b"PWD=", b"OLDPWD=")


class Wrong(NamedTuple):
    kind: str
    what: str


class Process(Protocol):
    """As much as is asked of one, be it a fork or a Python of its own."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def kill(self) -> None: ...


class Tool(Protocol):
    """What is fuzzed: how it is spelled, started, and what it must never do again."""

    name: str
    answers: bool  # its exit codes and messages are looked at, too
    forks: bool  # most starts may be forks of this process

    def spell(self, world: World) -> None: ...
    def command(self, words: list[str]) -> list[str]: ...
    def words(self, rng: Random) -> list[str]: ...
    def target(self, run: str, name: str) -> str: ...
    def allowed(self, world: World, now: dict[str, Truth]) -> set[str]: ...
    def learn(self, world: World, states: list[dict[str, Truth]], ran: list[str]) -> int: ...
    def check(self, world: World) -> None: ...
    def forget_caches(self, world: World) -> str: ...


class World:
    """All decisions come from `rng`; all that is done is in `sequence`."""

    def __init__(self, folder: Path, tool: Tool, rng: Random) -> None:
        self.root, self.outside, self.tool, self.rng = folder / "project", folder / "outside", tool, rng
        self.sequence: list[str] = []
        self.rounds: list[set[str]] = []  # what happened in each
        self.counts: Counter[str] = Counter()
        self.wrong: list[Wrong] = []
        self.stragglers: set[str] = set()
        self.started: list[Process] = []
        self.others = {*psutil.pids()}  # there before anything of this project
        self._known: tuple[model.Project, dict[str, bytes], dict[str, Truth]] | None = None
        self.slowest_end = 0.0
        self.outside.mkdir(parents=True)
        self.project = model.draw(rng, rng.choice(("runs/.store", str(folder / "store"))))
        self.history: dict[str, list[bytes]] = {}
        self.outputs: set[str] = set()
        self._lay_out()

    def _lay_out(self) -> None:
        (self.root / "specs").mkdir(parents=True)
        for name in ("action.py", model.CODE):
            shutil.copyfile(action.__file__, self.root / name)
        for path in (*model.SOURCES, *model.KEPT, "data/sub/one.txt"):
            self.write(path, f"first of {path}\n".encode())
        self.tool.spell(self)

    def write(self, path: str, body: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            self.history.setdefault(path, []).append(file.read_bytes())
        file.write_bytes(body)

    def respell(self, project: model.Project) -> None:
        self.project = project
        self.tool.spell(self)

    def truths(self) -> dict[str, Truth]:
        sources = snapshot(self.root)
        if self._known is None or self._known[:2] != (self.project, sources):
            self._known = self.project, sources, truths(self.project, sources)
            self.outputs.update(path for truth in self._known[2].values() for path in truth.outputs)
        return self._known[2]

    def ran(self) -> list[str]:
        """The marks of all targets whose actions ran, in order."""
        try:
            return (self.outside / "ran").read_text().split()
        except FileNotFoundError:
            return []

    def tell(self, word: str, *marks: str) -> None:
        """Let the actions of these targets `hold` or `fail`."""
        whole = self.outside / f"{word}.new"
        whole.write_text(" ".join(marks))
        whole.replace(self.outside / word)  # an action that looks meanwhile sees the old marks or the new ones

    def begin(self, name: str) -> None:
        self.rounds[-1].add(name)
        self.counts[name] += 1

    def log(self, what: str) -> None:
        self.sequence.append(what)

    def find(self, kind: str, what: str) -> None:
        self.wrong.append(Wrong(kind, what))
        self.log(f"  !! {kind}: {what}")

    def intact(self, truth: Truth) -> bool:
        """The outputs are there and as they should be."""
        return not any(self.differs(truth, path) for path in truth.outputs)

    def differs(self, truth: Truth, path: str) -> str:
        try:
            body = (self.root / path).read_bytes()
        except OSError as error:
            return str(error.strerror)
        if body != truth.outputs[path]:
            return f"{len(body)} bytes that differ from the {len(truth.outputs[path])} expected"
        runnable = bool((self.root / path).stat().st_mode & 0o100)
        wanted = "x" in truth.target.step.flags and path == truth.target.outputs[0]
        return "" if runnable == wanted else f"executable: {runnable}"

    def processes(self) -> list[psutil.Process]:
        """Those that carry this project's folder in their arguments or environment."""
        folder = os.fsencode(self.root.parent)
        found = {int(name) for name in os.listdir("/proc") if name.isdecimal()} - self.others
        return [each for pid in found if any(folder in word for word in _words(pid)) and (each := _process(pid))]

    def all_gone(self, within: float = 5.0) -> None:
        started = time.monotonic()
        left = self.processes()
        until(lambda: not any(map(_is_alive, left)), within)
        if left := self.processes():
            self.find("process left", "; ".join(f"{each.pid} {' '.join(each.cmdline())[:200]}" for each in left))
            self.end_all()
        self.slowest_end = max(self.slowest_end, time.monotonic() - started)

    def end_all(self) -> None:
        for start in self.started:
            start.kill()
        for each in self.processes():
            each.kill()


def _words(pid: int) -> list[bytes]:
    """Its arguments and environment; none of one that ended meanwhile, or of another user's."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as arguments, open(f"/proc/{pid}/environ", "rb") as environment:
            rest = environment.read().split(b"\0")
            return [*arguments.read().split(b"\0"), *(word for word in rest if not word.startswith(HANDED_DOWN))]
    except OSError:
        return []


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _is_alive(process: psutil.Process) -> bool:
    """One that has ended and is not waited for yet is not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], within: float) -> bool:
    deadline = time.monotonic() + within
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.003)
    return met
