"""Running commands: in a session of their own, their output in a log, and nothing of them left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from tempfile import TemporaryFile
from threading import Event, Lock, Timer
from typing import IO, NamedTuple

from pipeline.edge.redact import copy_redacted

# What a step sees of the caller's environment without asking.
ALLOWED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_TIME", "TZ")
# In the environment of every command, so that what a killed build leaves behind can be found and ended.
MARK = "COPPICE_FOLDER"
GRACE = 3.0


class Exit(NamedTuple):
    """How a command ended; a negative code is the number of a signal, as subprocess has it."""

    code: int
    timed_out: bool = False


class Stopping(Exception):
    """The build is being interrupted; nothing new is started."""


class Processes:
    """The commands of one build of `runs`.  `stop` ends them all; if this process is killed, the guard does.

    `locks` stay locked until the guard is done: the next build waits for that before it starts anything."""

    def __init__(self, runs: Sequence[str], locks: Sequence[int] = ()) -> None:
        self._runs = tuple(runs)
        self._base = {name: os.environ[name] for name in ALLOWED if name in os.environ}
        self._locks = tuple(locks)
        self._live: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self.stopping = False

    def environment(
        self, run: str, fixed: Mapping[str, str], passed: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """What a step of `run` sees, and the part of it that must not be seen in logs."""
        secrets = {name: os.environ[name] for name in passed if name in os.environ}
        return {**self._base, **secrets, **fixed, MARK: mark(run)}, secrets

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: str,
        timeout: float | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> Exit:
        """Run to the end or the timeout; what is left of its process group is ended too."""
        with open(log, "ab") as output, self._hidden(secrets) as hidden:
            child = self.start(argv, env, stdout=hidden or output, stderr=subprocess.STDOUT)
            try:
                with self.deadline(child, timeout) as late:
                    child.wait()
            finally:
                self.end(child)
                if hidden is not None:
                    hidden.seek(0)
                    copy_redacted(hidden, output, secrets or {})
            return Exit(child.returncode, late.is_set())

    @staticmethod
    def _hidden(secrets: Mapping[str, str] | None) -> AbstractContextManager[IO[bytes] | None]:
        """Where output waits that may have a secret in it: a file without a name."""
        return TemporaryFile() if secrets else nullcontext(None)

    @contextmanager
    def deadline(self, child: subprocess.Popen[bytes], timeout: float | None) -> Iterator[Event]:
        """End `child` after `timeout` seconds; the event says whether that was needed."""
        late = Event()
        if timeout is None:
            yield late
            return

        def end() -> None:
            late.set()
            self.end(child)

        timer = Timer(timeout, end)
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()
            timer.join()

    def start(self, argv: Sequence[str], env: Mapping[str, str], **streams: object) -> subprocess.Popen[bytes]:
        with self._lock:
            if self.stopping:
                raise Stopping
            if self._guard is None:
                self._guard = _start_guard(self._runs, self._locks)
            child: subprocess.Popen[bytes] = subprocess.Popen(
                list(argv),
                env=dict(env),
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, **streams},  # type: ignore[call-overload]
            )
            self._live[child.pid] = child
            self._tell_guard(b"+%d\n" % child.pid)
            return child

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """End the process group of `child`, politely first.  The guard ends what has left the group."""
        if child.pid not in self._live:
            return
        if child.returncode is None:
            _signal(child.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(GRACE)
        _signal(child.pid, signal.SIGKILL)
        child.wait()
        with self._lock:
            if self._live.pop(child.pid, None):
                self._tell_guard(b"-%d\n" % child.pid)

    def stop(self) -> None:
        """Interrupt everything: TERM to all, a moment for them, then KILL."""
        self.stopping = True
        self._signal_all(signal.SIGTERM)
        last_word = Timer(GRACE, self._signal_all, [signal.SIGKILL])
        last_word.daemon = True
        last_word.start()

    def _signal_all(self, number: int) -> None:
        with self._lock:
            for pid in self._live:
                _signal(pid, number)

    def close(self) -> None:
        self.stopping = True
        for child in list(self._live.values()):
            self.end(child)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait()

    def _tell_guard(self, line: bytes) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(BrokenPipeError, ValueError):  # somebody killed the guard: commands still run, unguarded
                self._guard.stdin.write(line)
                self._guard.stdin.flush()


def mark(run: str) -> str:
    return os.path.abspath(f"runs/{run}")


def _start_guard(runs: Sequence[str], locks: Sequence[int]) -> subprocess.Popen[bytes]:
    guard = os.path.join(os.path.dirname(__file__), "guard.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard, os.pathsep.join(sys.path), *map(mark, runs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=locks,
    )


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone already, or not ours to end
        os.killpg(pid, number)
