"""Suspects: commands of candidates that were at work when their build died, or that are killed each time.

A command that can end its build, as one in no cage can, would end each build that comes to it.  So the run has a file
with a line for each that begins or ends; a build that ends in order leaves none.  States of a command, by its work:

    unknown   -> at work    it begins, beside others
    at work   -> unknown    it ends, however, and its build goes on; or its build was being stopped, was taken over, or
                            ran before the machine was last started: the build did not die of it
    at work   -> suspect    its build died; nobody is blamed yet, since others may have been at work as well
    suspect   -> alone      it begins, and no other command of the build is at work until it has ended
    alone     -> unknown    as from `at work`
    alone     -> condemned  its build died again: it fails, without being run
    condemned -> unknown    the build that said so has ended: who wants it tried again may do so

    unknown   -> killed     it was killed from outside at each try of a build, which others were not
    killed    -> unknown    it ended by itself
    killed    -> failed     it ran alone, and by now was killed at MOST_KILLS tries, in two builds at least

What is decided depends on which builds died, not on when.  Lines survive a kill without being synced; what a power cut
takes with it is of a machine that was started anew; where the system does not tell of that, nobody is suspected.  In no
cage a candidate can change these lines, too, or remove them: then nothing is known of anybody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Condition
from typing import NamedTuple

from pipeline.machine.failures import lacking_room
from pipeline.machine.job import Job
from pipeline.machine.lock import AT_WORK
from pipeline.machine.process import NotBegun
from pipeline.store import noop

DIED_TWICE = "the build died while it ran, twice, the second time while nothing ran beside it"
MOST_KILLS = 4
_BOOT = "/proc/sys/kernel/random/boot_id"
_LOOK_EVERY = 0.1  # seconds, while there is a suspect
# First words of lines; most go before the name of a work.  Who was killed has left, and who ended by itself has ended.
_STARTED, _STOPPING, _BEGAN, _ALONE, _LEFT, _ENDED = "machine", "stopping", "began", "alone", "left", "ended"
_SUSPECT, _CONDEMNED, _KILLED, _OTHERS = "suspect", "condemned", "killed", "others"


class Suspicion(NamedTuple):
    """Suspicions against the commands of a run.  `killed`: how often; `others`: some that were not killed ran."""

    suspects: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()
    killed: tuple[tuple[str, int], ...] = ()
    others: bool = False

    @property
    def lines(self) -> list[str]:
        named = ((_SUSPECT, self.suspects), (_CONDEMNED, self.condemned))
        lines = [f"{word} {work}" for word, works in named for work in sorted(works)]
        lines += [f"{_KILLED} {work}" for work, times in self.killed for _ in range(times)]
        return [*lines, *([_OTHERS] if self.others else [])]


def read_suspicion(lines: list[str], machine: str) -> Suspicion:
    """Read what the lines of a build that has ended leave behind; `machine`: how it was started."""
    at_work: dict[str, str] = {}
    held: dict[str, str] = {}  # what was known before
    killed: dict[str, int] = {}
    is_same = bool(machine) and f"{_STARTED} {machine}" in lines
    for word, _, work in (line.partition(" ") for line in lines):
        if word in (_BEGAN, _ALONE):
            at_work[work] = word
        elif word in (_LEFT, _ENDED):
            at_work.pop(work, None)
            held.pop(work, None)
            if word == _ENDED:
                killed.pop(work, None)
        elif word in (_SUSPECT, _CONDEMNED):
            held[work] = word
        elif word == _KILLED:
            killed[work] = killed.get(work, 0) + 1
    if _STOPPING not in lines:
        held |= {work: _CONDEMNED if how == _ALONE else _SUSPECT for work, how in at_work.items()}
    held = held if is_same else {}
    suspects, condemned = (frozenset(w for w, how in held.items() if how == kind) for kind in (_SUSPECT, _CONDEMNED))
    return Suspicion(suspects, condemned, tuple(killed.items()), _OTHERS in lines)


def suspects_path(run: str) -> str:
    return f"{noop.folder(run)}/{AT_WORK}"


def _machine_start() -> str:
    """A name that is another one on each machine, each time that it is started; empty where nobody tells."""
    with suppress(OSError), open(_BOOT, encoding="ascii") as file:
        return file.read().strip()
    return ""


class _RunLines:
    """The file of a run while it is built."""

    def __init__(self, run: str) -> None:
        self.path = suspects_path(run)
        self.before = read_suspicion(self._read(), machine := _machine_start())
        self.killed = dict(self.before.killed)
        self.others = self.before.others
        os.makedirs(noop.folder(run), exist_ok=True)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.add("\n".join([f"{_STARTED} {machine}", *self.before.lines]))

    def _read(self) -> list[str]:
        with suppress(FileNotFoundError), open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
        return []

    def add(self, line: str) -> None:
        """Add a line by one write: also a handler of signals may do so."""
        with lacking_room():
            os.write(self._fd, f"{line}\n".encode())

    def note_other(self) -> None:
        if not self.others:
            self.others = True
            self.add(_OTHERS)

    def close(self) -> None:
        """Keep what is to be known by the next build: nothing that was at work, and nobody who was condemned."""
        os.close(self._fd)
        machine = _machine_start()
        now = read_suspicion([*self._read(), _STOPPING], machine)._replace(condemned=frozenset())
        if not now.suspects and not now.killed:
            with suppress(FileNotFoundError):
                os.unlink(self.path)
            return
        with lacking_room(), open(self.path, "w", encoding="utf-8") as file:
            file.write("\n".join([f"{_STARTED} {machine}", *now.lines, ""]))


class CommandRecord:
    """A command at work.  `condemned`: it is not to be run.  `alone`: nothing runs beside it."""

    def __init__(self, lines: _RunLines, work: str) -> None:
        self._lines, self._work, self._was_killed = lines, work, work in dict(lines.before.killed)
        self.condemned = work in lines.before.condemned
        self.alone = self._was_killed or work in lines.before.suspects
        self.killed = False

    def note_kill(self) -> None:
        """Note that it was killed from outside."""
        self.killed = True
        self._lines.killed[self._work] = self._lines.killed.get(self._work, 0) + 1
        self._lines.add(f"{_KILLED} {self._work}")

    @property
    def is_to_blame(self) -> bool:
        """Check if it is its own failure by now that it was killed."""
        is_enough = self._lines.killed.get(self._work, 0) >= MOST_KILLS
        return self.killed and self._was_killed and self._lines.others and is_enough


class Suspects:
    """Commands of a build, and what is held against them since the last one.  Of a build there is one."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._lines: dict[str, _RunLines] = {}
        self._at_work = self._waiting = 0
        self._one_alone = False

    @contextmanager
    def at_work(self, job: Job, work: str, may_kill: bool) -> Iterator[CommandRecord]:
        """Let a command run for the block, alone if there is anything against it.

        `work`: what it does, by name.  `may_kill`: nothing keeps it from ending the build."""
        with self._changed:
            if (run := job.target.run) not in self._lines:
                self._lines[run] = _RunLines(run)
        lines = self._lines[run]
        record = CommandRecord(lines, work)
        if record.condemned:
            yield record
            return
        self._begin(job, record.alone)
        try:
            with job.processes.wake_on_stop(lambda: lines.add(_STOPPING)):
                if may_kill:
                    lines.add(f"{_ALONE if record.alone else _BEGAN} {work}")
                yield record
        finally:
            if not job.processes.stopping and (may_kill or record.alone):  # first: what comes after it may kill
                lines.add(f"{_LEFT if record.killed else _ENDED} {work}")
            self._end(record.alone)
        if not record.killed:
            lines.note_other()

    def _begin(self, job: Job, alone: bool) -> None:
        with self._changed:
            self._waiting += alone
            try:
                while self._one_alone or (self._at_work if alone else self._waiting):
                    if job.processes.stopping:
                        raise NotBegun
                    self._changed.wait(_LOOK_EVERY)
            finally:
                self._waiting -= alone
            self._one_alone = alone
            self._at_work += 1

    def _end(self, alone: bool) -> None:
        with self._changed:
            self._at_work -= 1
            self._one_alone = self._one_alone and not alone
            self._changed.notify_all()

    def close(self) -> None:
        for lines in self._lines.values():
            lines.close()
