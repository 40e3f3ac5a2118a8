"""Running commands: in a session of their own, their output in a log, and nothing of them left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from threading import Event, Lock, Timer
from typing import IO, TYPE_CHECKING, NamedTuple

from pipeline.edge.child import await_end, has_ended, signal_group
from pipeline.edge.guarding import start_guard
from pipeline.edge.redact import without
from pipeline.errors import writing

if TYPE_CHECKING:
    from pipeline.edge.confine import Confined

# What a step sees of the caller's environment without asking.
ALLOWED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_TIME", "TZ")
# In the environment of every command, so that what a killed build leaves behind can be found and ended.
MARK = "COPPICE_FOLDER"
GRACE = 3.0
IN_ORDER = b".\n"  # what the guard is told last, unless we are killed


class Exit(NamedTuple):
    """How a command ended; a negative code is the number of a signal, as subprocess has it."""

    code: int
    timed_out: bool = False


class Stopping(Exception):
    """The build is being interrupted; nothing new is started."""


class Processes:
    """The commands of one build of `runs`.  `stop` ends them all; if this process is killed, the guard does.

    A child is in `_live` until it is asked how it ended, both under the lock; signals go to no others.

    `locks` stay locked until the guard is done: the next build waits for that before it starts anything."""

    def __init__(self, runs: Sequence[str], locks: Sequence[int] = ()) -> None:
        self._marks = {run: mark(run) for run in runs}
        self._base = {name: os.environ[name] for name in ALLOWED if name in os.environ}
        self._locks = tuple(locks)
        self._live: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self._wakes: list[Callable[[], object]] = []
        self.stopping = False
        # Whoever started us may have had it ignored: then the system forgets how children ended, and all seems well.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def environment(
        self, run: str, fixed: Mapping[str, str], passed: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """What a step of `run` sees, and the part of it that must not be seen in logs."""
        secrets = {name: os.environ[name] for name in passed if name in os.environ}
        return {**self._base, **secrets, **fixed, MARK: self._marks[run]}, secrets

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log: str,
        timeout: float | None = None,
        secrets: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | None = None,
        confined: Confined | None = None,
    ) -> Exit:
        """Run to the end or the timeout; what is left of its process group is ended too.

        Without a `stdout` of its own, all that it prints goes to the log."""
        with writing(log), open(log, "ab") as output, without(secrets or {}, output) as printed:
            out = printed if stdout is None else stdout
            child = self.start(argv, env, confined, cwd=cwd, stdin=stdin, stdout=out, stderr=printed)
            try:
                with self.deadline(child, timeout) as late:
                    await_end(child)
            except BaseException:
                self.end(child)
                raise
            self._reap(child)
        return Exit(child.returncode, late.is_set())

    @contextmanager
    def deadline(self, child: subprocess.Popen[bytes], timeout: float | None) -> Iterator[Event]:
        """The block waits for `child`, which is asked to end after `timeout` seconds, and killed if it does not listen.
        The event says whether it was asked."""
        late, over = Event(), Event()
        if timeout is None:
            yield late
            return

        def end() -> None:
            late.set()
            self._signal(child, signal.SIGTERM)
            if not over.wait(GRACE):
                self._signal(child, signal.SIGKILL)

        timer = Timer(timeout, end)
        timer.start()
        try:
            yield late
        finally:
            over.set()
            timer.cancel()
            timer.join()

    def start(
        self, argv: Sequence[str], env: Mapping[str, str], confined: Confined | None = None, **how: object
    ) -> subprocess.Popen[bytes]:
        with confined.ready() if confined else nullcontext(_here) as within, self._lock:
            if self.stopping:
                raise Stopping
            if self._guard is None:
                self._guard = start_guard([*self._marks.values()], self._locks, MARK)
            how = {"stdin": subprocess.DEVNULL, **how}
            child = within(lambda: _opened(argv, env, how))
            self._live[child.pid] = child
            self._tell_guard(b"+%d\n" % child.pid)
            return child

    def end(self, child: subprocess.Popen[bytes]) -> None:
        """End the process group of `child`, politely first.  The guard ends what has left the group."""
        if not has_ended(child):
            with self.deadline(child, 0):
                await_end(child)
        self._reap(child)

    def _reap(self, child: subprocess.Popen[bytes]) -> None:
        """It has ended: the rest of its group goes too, then we ask how it ended."""
        with self._lock:
            if self._live.pop(child.pid, None):
                signal_group(child.pid, signal.SIGKILL)
                child.wait()
                self._tell_guard(b"-%d\n" % child.pid)

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """For what waits, but not for a command: `wake` is called when the build stops, maybe in a signal handler."""
        self._wakes.append(wake)
        try:
            if self.stopping:  # looked at after `wake` is known: no stop comes between
                raise Stopping
            yield
        finally:
            self._wakes.remove(wake)

    def stop(self) -> None:
        """Interrupt everything: TERM to all, a moment for them, then KILL."""
        self.stopping = True
        for wake in [*self._wakes]:
            wake()
        self._signal_all(signal.SIGTERM)
        last_word = Timer(GRACE, self._signal_all, [signal.SIGKILL])
        last_word.daemon = True
        last_word.start()

    def _signal(self, child: subprocess.Popen[bytes], number: int) -> None:
        with self._lock:
            if child.pid in self._live:
                signal_group(child.pid, number)

    def _signal_all(self, number: int) -> None:
        with self._lock:
            for pid in self._live:
                signal_group(pid, number)

    def close(self) -> None:
        with self._lock:
            self.stopping = True
            left = [*self._live.values()]
        if left:
            self.stop()  # all of them at once: each may take its time
        for child in left:
            self.end(child)
        with self._lock:
            self._tell_guard(IN_ORDER)
            guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait()

    def _tell_guard(self, line: bytes) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(BrokenPipeError):  # somebody killed the guard: commands still run, unguarded
                self._guard.stdin.write(line)


def _opened(argv: Sequence[str], env: Mapping[str, str], how: Mapping[str, object]) -> subprocess.Popen[bytes]:
    child: subprocess.Popen[bytes] = subprocess.Popen(
        list(argv),
        env=dict(env),
        start_new_session=True,
        **how,  # type: ignore[call-overload]
    )
    return child


def _here(do: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return do()


def mark(run: str) -> str:
    return os.path.abspath(f"runs/{run}")
