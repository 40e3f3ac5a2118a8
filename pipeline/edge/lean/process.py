"""One Lean process that runs Repl.lean: a request, then its answer, each a line of JSON."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.edge.child import signal_group

READY = b"ready"
START = 300.0  # seconds that a process has until it is ready
PIECE = 1 << 20


@dataclass(frozen=True)
class Command:
    """How to start a Lean that runs Repl.lean."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Starter(Protocol):
    """Starts processes in sessions of their own and ends them: `pipeline.edge.process.Processes` is one."""

    def start(self, argv: Any, env: Any, confined: None = None, **how: Any) -> subprocess.Popen[bytes]: ...

    def end(self, child: subprocess.Popen[bytes]) -> None: ...


class Ended(Exception):
    """The process ended before it answered."""


class Overrun(Exception):
    """It did not answer in time."""


class Repl:
    """Its answers are told from whatever else is printed by a word that is drawn for every request.

    It is used by one thread at a time; only `kill` may come from any other."""

    def __init__(self, command: Command, starter: Starter) -> None:
        self._starter = starter
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._printed}
        self._child = starter.start(command.argv, command.env, cwd=command.cwd, **pipes)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        self._rest = b""
        try:
            self.greeting = self._answer(READY, START)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        word = secrets.token_hex(8)
        line = json.dumps({**request, "word": word}, ensure_ascii=False)
        try:
            _write_all(self._in, line.encode() + b"\n")
        except BrokenPipeError:
            raise Ended(self.last_words()) from None
        return self._answer(word.encode(), timeout)

    def _answer(self, word: bytes, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while True:
            line = self._line(deadline)
            if line.startswith(word + b" "):
                answer: dict[str, Any] = json.loads(line[len(word) :])
                return answer

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._out], [], [], left)[0]:
                raise Overrun
            piece = os.read(self._out, PIECE)
            if not piece:
                raise Ended(self.last_words())
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def last_words(self) -> str:
        self._printed.seek(0)
        return self._printed.read()[-2000:].decode(errors="replace").strip()

    def memory(self) -> int:
        """Bytes that it has in memory; 0 when it has ended."""
        return 0

    def kill(self) -> None:
        """At once; whoever waits for an answer gets Ended."""
        if self._child.returncode is None:
            signal_group(self._child.pid, signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        self._starter.end(self._child)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._printed.close()


def _write_all(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]
