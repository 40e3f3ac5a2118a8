"""Processes of the backend leandojo: one that holds a Dojo, and commands that run to their end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from pipeline.edge.child import has_ended, signal_group
from pipeline.edge.lean.model import Stop
from pipeline.edge.lean.process import Ended, Overrun, Starter
from pipeline.edge.lean.turns import LOOK, look
from pipeline.edge.process import Stopping

CHILD = Path(__file__).with_name("dojo_child.py")
LAST_WORDS = 2000
PIECE = 1 << 16
PAUSE = 0.02  # seconds between looks at whether a process has ended
POLITE = 2.0  # seconds that a Dojo has to put away what it made


class Ran(NamedTuple):
    """How a command ended, and what it printed to its output and to its errors."""

    code: int
    out: str
    err: str


def ran(
    starter: Starter, argv: Sequence[str], env: Mapping[str, str], cwd: str, timeout: float, stop: Stop | None = None
) -> Ran:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = starter.start(argv, env, cwd=cwd, stdout=out, stderr=err)
        try:
            _await(child, time.monotonic() + timeout, stop)
        finally:
            starter.end(child)
        if starter.stopping:
            raise Stopping
        return Ran(child.returncode, _read(out), _read(err))


def _await(child: subprocess.Popen[bytes], deadline: float, stop: Stop | None) -> None:
    while not has_ended(child):
        look(stop)
        if time.monotonic() >= deadline:
            signal_group(child.pid, signal.SIGKILL)
            raise Overrun
        time.sleep(PAUSE)


def _read(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode(errors="replace")
    return text


class DojoProcess:
    """Used by one thread at a time.  After Ended, Overrun and Interrupted it is of no use: it may still be busy."""

    def __init__(self, starter: Starter, env: Mapping[str, str], cwd: str) -> None:
        self._starter = starter
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._printed}
        # -I: neither the folder it starts in nor PYTHON… of the caller has a say in what it imports
        self._child = starter.start([sys.executable, "-I", str(CHILD)], env, cwd=cwd, **pipes)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        self._rest = b""
        self.file = ""  # what it writes for Lean

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def stopping(self) -> bool:
        """The build ends, and all of its processes."""
        return self._starter.stopping

    def ask(self, request: Mapping[str, Any], timeout: float, stop: Stop | None = None) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        try:
            self._in.write(json.dumps(request).encode() + b"\n")
            self._in.flush()
        except BrokenPipeError:
            raise Ended(self.last_words()) from None
        answer: dict[str, Any] = json.loads(self._line(deadline, stop))
        self.file = answer.get("file", self.file)
        return answer

    def _line(self, deadline: float, stop: Stop | None) -> bytes:
        while b"\n" not in self._rest:
            look(stop)
            left = deadline - time.monotonic()
            if left <= 0:
                raise Overrun
            if not select.select([self._out], [], [], min(left, LOOK))[0]:
                continue
            piece = os.read(self._out.fileno(), PIECE)
            if not piece:
                raise Ended(self.last_words())
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def last_words(self) -> str:
        return _read(self._printed)[-LAST_WORDS:].strip()

    def end(self) -> None:
        """With the Lean of its Dojo, which is in a session of its own."""
        with suppress(BrokenPipeError):
            self._in.close()  # a Dojo that does nothing puts away what it made, and ends
        deadline = time.monotonic() + POLITE
        while not has_ended(self._child) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        for each in _descendants(self._child.pid):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        signal_group(self._child.pid, signal.SIGKILL)
        self._starter.end(self._child)
        self._out.close()
        self._printed.close()
        if self.file:
            Path(self.file).unlink(missing_ok=True)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
