"""Commands: run in sessions of their own, their output in a log without secrets, nothing left behind.

States of a command, which leads a process group:

    live     started; it may be sent signals: TERM on a stop or after a timeout, KILL after GRACE
    ended    it has ended, and nobody has asked how: no other process can get its number yet
    reaped   the rest of its group was killed and its status was asked for; no more signals

If this process is killed, the guard does the rest: it outlives us, and finds what we started by a mark in the
environment."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from subprocess import Popen
from threading import Event, Lock, Timer
from typing import IO, TYPE_CHECKING, Any, ClassVar, NamedTuple

from pipeline.errors import writing
from pipeline.machine.redaction import redacted_output, secrets_in
from pipeline.store.flock import LockWaits
from pipeline.store.secret import VARIABLE as STORE_KEY

if TYPE_CHECKING:
    from pipeline.machine.cage import Cage

Starter = Callable[[], Popen[bytes]]


def has_ended(child: Popen[bytes]) -> bool:
    """Check if a child has ended; how it ended is asked for later."""
    return _look_for_end(child, wait=False)


def await_end(child: Popen[bytes]) -> None:
    """Wait for the end of a child; how it ended is asked for later."""
    _look_for_end(child, wait=True)


def _look_for_end(child: Popen[bytes], wait: bool) -> bool:
    if child.returncode is not None:
        return True
    if sys.platform == "darwin" and sys.version_info < (3, 13):  # whose Python has no waitid
        with closing(select.kqueue()) as queue:
            ends = select.kevent(child.pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            return bool(queue.control([ends], 1, None if wait else 0))
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)) is not None
    except ChildProcessError:  # another thread has asked
        return True


def signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone already, or not ours to end
        os.killpg(pid, number)


@contextmanager
def end_of_child(pid: int) -> Iterator[int]:
    """Give a descriptor that can be read from once a child has ended."""
    if sys.platform == "linux":
        ended = os.pidfd_open(pid)
    else:  # macOS; its queue may say of a child that has ended already that there is none
        queue = select.kqueue()
        ended = queue.fileno()
        try:
            wanted = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            queue.control([wanted], 0)
        except ProcessLookupError:
            queue.close()
            ended, end = os.pipe()
            os.close(end)
    try:
        yield ended
    finally:
        os.close(ended)


def children_of(pid: int) -> list[int]:
    """Children of all threads of a process; none of one that is gone, or where the system does not say."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found.extend(map(int, file.read().split()))
    return found


def _inner_session(pid: int) -> int:
    """The leader of the session within bubblewrap, its first process, which heeds no polite signal itself; 0 as long
    as it has not started the command."""
    leader = next(iter(children_of(pid)), 0)
    return leader if leader and children_of(leader) else 0


def _children_elsewhere() -> set[int]:
    """Our children that are in other sessions than we."""
    found, own = set[int](), os.getsid(0)
    for pid in children_of(os.getpid()):
        with suppress(ProcessLookupError):
            found |= {pid} if os.getsid(pid) != own else set()
    return found


def _end_orphans(strangers: set[int]) -> None:
    """End what commands have left that left their sessions too: having lost its parents, it is our child.

    What such a one has started is our child only then."""
    passed = set(strangers)
    while left := _children_elsewhere() - passed:
        passed |= {pid for pid in left if not _end_orphan(pid)}


def _end_orphan(pid: int) -> bool:
    """End a child and ask how it ended; False for one that is another user's by now."""
    with suppress(ProcessLookupError, ChildProcessError):
        try:
            os.kill(pid, signal.SIGKILL)
        except PermissionError:
            return False
        os.waitpid(pid, 0)
    return True


def start_guard(marks: Sequence[str], locks: Sequence[int]) -> Popen[bytes]:
    """Start the guard without our environment, which holds keys and may hold the mark of a build whose command we are:
    our guard must outlive us."""
    guard = os.path.join(os.path.dirname(__file__), "guard.py")
    return Popen(
        [sys.executable, "-I", "-S", guard, os.pathsep.join(sys.path), *marks],
        env=set_variables(("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")),
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=locks,
    )


# What a step sees of the caller's environment without asking.
ALLOWED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_COLLATE", "LC_TIME", "TZ")
# In the environment of every command, so that what a killed build leaves behind can be found and ended.
MARK = "COPPICE_FOLDER"
# What a spec may not name, and why.
OWN_VARIABLES = {
    MARK: "is set by Coppice itself, to find what a build leaves behind",
    STORE_KEY: "signs the results of the store, and is given to no command",
}
KILL_AFTER = 3.0
IN_ORDER = b".\n"  # what the guard is told last, unless we are killed


class Exit(NamedTuple):
    """The end of a command; a negative code is the number of a signal, as subprocess has it.

    `limit`: the limit that it passed, in words; `fault`: why it never began, though there is such a program."""

    code: int
    timed_out: bool = False
    limit: str = ""
    fault: str = ""


def set_variables(names: Iterable[str]) -> dict[str, str]:
    """Our own variables of these names, as far as they are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


class Environment(NamedTuple):
    """Variables of a command, and those of them whose values must not appear in logs."""

    variables: dict[str, str]
    secrets: Mapping[str, str] = {}


def _start_without_peeking(start: Starter) -> Popen[bytes]:
    """Start a command that cannot look into us, which root could."""
    from pipeline.machine import kernel  # here, as below: it loads ctypes, and most builds start nothing

    return kernel.run_limited(start, capabilities=kernel.PEEKING) if kernel.is_root() else start()


class Launch(NamedTuple):
    """How a command is started: words, environment and folder for `Popen`, files it keeps open, and a caller.

    `status`: the file in which bubblewrap says how it went."""

    words: Sequence[str]
    env: Mapping[str, str]
    folder: str | None = None
    keep: tuple[int, ...] = ()
    call: Callable[[Starter], Popen[bytes]] = _start_without_peeking
    status: int = -1


class BuildStopping(Exception):
    """Refusal to go on, because the build is being interrupted."""


class NotBegun(BuildStopping):
    """Refusal to start anything new: nothing of it was begun."""


class Processes:
    """The commands of one build of `runs`.  `stop` ends them all; if this process is killed, the guard does.

    A child is in `_live` until it is asked how it ended, both under the lock; signals go to no others.  Commands alone
    have sessions of their own: what else is started here stays in ours.

    `locks` stay locked until the guard is done: the next build waits for that before it starts anything.  `mark`: of
    commands that others than the builds of their run have started, and end."""

    _lock = Lock()
    _in_sessions: ClassVar[set[int]] = set()  # commands and guards of all builds of this process

    def __init__(self, runs: Sequence[str], locks: Sequence[int] = (), mark: str = "") -> None:
        self._marks = {run: mark or os.path.abspath(f"runs/{run}") for run in runs}
        self._base = set_variables(ALLOWED)
        self._locks = tuple(locks)
        self._live: dict[int, Popen[bytes]] = {}
        self._wrapped: set[int] = set()  # those of them that are bubblewrap, with a session within
        self._guard: Popen[bytes] | None = None
        self._wakes: list[Callable[[], object]] = []
        self._strangers: set[int] = set()  # children that no command of ours has left, such as the guard
        self.started: Callable[[int], None] = lambda pid: None  # called in the thread that started a command
        self.stopping = LockWaits.stopping = False
        # Whoever started us may have had it ignored: then the system forgets how children ended, and all seems well.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def environment(
        self, run: str, fixed: Mapping[str, str], passed: Sequence[str], plain: Sequence[str] = ()
    ) -> Environment:
        """Environment of a step of `run`.  Values of `passed` are secrets; of `plain`, addresses and settings, only
        passwords and keys in them are."""
        secrets, settings = set_variables(passed), set_variables(plain)
        variables = {**self._base, **settings, **secrets, **fixed, MARK: self._marks[run]}
        found = {
            f"{name} {n}" if n else name: each
            for name, value in settings.items()
            for n, each in enumerate(secrets_in(value))
        }
        return Environment(variables, {**found, **secrets, **set_variables([STORE_KEY])})

    def run(
        self,
        argv: Sequence[str],
        env: Environment,
        log: str,
        timeout: float | None = None,
        *,
        cwd: str | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        stdout: IO[bytes] | None = None,
        cage: Cage | None = None,
    ) -> Exit:
        """Run to the end or the timeout; what is left of its process group is ended too.

        Without a `stdout` of its own, all that it prints goes to the log."""
        if cage is not None and cage.needs_watching:
            from pipeline.machine.cage import run_caged  # here: most builds start nothing that needs it

            with writing(log), open(log, "ab") as output:
                return run_caged(self, argv, env, output, timeout, cage, {"stdin": stdin, "stdout": stdout})
        with writing(log), open(log, "ab") as output, redacted_output(env.secrets, output) as printed:
            out = printed if stdout is None else stdout
            child = self.start(argv, env.variables, cwd=cwd, stdin=stdin, stdout=out, stderr=printed)
            try:
                with self.deadline(child, timeout) as late:
                    await_end(child)
            except BaseException:
                self.end(child)
                raise
            self.reap(child)
        return Exit(child.returncode, late.is_set())

    @contextmanager
    def deadline(self, child: Popen[bytes], timeout: float | None) -> Iterator[Event]:
        """End `child`, for which the block waits, after `timeout` seconds, politely first; the event tells of it."""
        late, over = Event(), Event()
        if timeout is None:
            yield late
            return

        def end() -> None:
            late.set()
            self._signal(child, signal.SIGTERM)
            if not over.wait(KILL_AFTER):
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
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str | None = None,
        launch: Launch | None = None,
        **options: Any,
    ) -> Popen[bytes]:
        """Start a command: plainly, or as `launch` says, which stands for all but its streams."""
        how = launch or Launch(argv, env, cwd)
        options = {"stdin": subprocess.DEVNULL, **options, "cwd": how.folder, "pass_fds": how.keep}
        with self._lock:
            if self.stopping:
                raise NotBegun
            if self._guard is None:
                from pipeline.machine import kernel

                kernel.guard_process()
                self._guard = start_guard([*self._marks.values()], self._locks)
                self._strangers = _children_elsewhere()  # with the guard
                self._in_sessions.add(self._guard.pid)
            child = how.call(lambda: Popen([*how.words], env={**how.env}, start_new_session=True, **options))
            self._live[child.pid] = child
            self._in_sessions.add(child.pid)
            if how.status >= 0:
                self._wrapped.add(child.pid)
            self._tell_guard(b"+%d\n" % child.pid)
        self.started(child.pid)
        return child

    def end(self, child: Popen[bytes]) -> None:
        """End the process group of `child`, politely first.  The guard ends what has left the group."""
        if not has_ended(child):
            with self.deadline(child, 0):
                await_end(child)
        self.reap(child)

    def reap(self, child: Popen[bytes]) -> None:
        """End the rest of the group of a child that has ended, then ask how it ended."""
        with self._lock:
            if self._live.pop(child.pid, None):
                signal_group(child.pid, signal.SIGKILL)
                child.wait()
                self._wrapped.discard(child.pid)
                self._in_sessions.discard(child.pid)
                self._tell_guard(b"-%d\n" % child.pid)
            if not self._live:  # beside others, nobody can tell whose it is
                _end_orphans(self._strangers | self._in_sessions)

    @contextmanager
    def wake_on_stop(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake`, perhaps in a signal handler, when the build stops while the block waits for no command."""
        self._wakes.append(wake)
        try:
            if self.stopping:  # looked at after `wake` is known: no stop comes between
                raise NotBegun
            yield
        finally:
            self._wakes.remove(wake)

    def stop(self) -> None:
        """Interrupt all commands: TERM, a moment for them, then KILL."""
        self.stopping = LockWaits.stopping = True
        for wake in [*self._wakes]:
            wake()
        self._signal_all(signal.SIGTERM)
        last_word = Timer(KILL_AFTER, self._signal_all, [signal.SIGKILL])
        last_word.daemon = True
        last_word.start()

    def kill(self, child: Popen[bytes]) -> None:
        """End a child at once; how it ended is asked for later."""
        self._signal(child, signal.SIGKILL)

    def _signal(self, child: Popen[bytes], number: int) -> None:
        with self._lock:
            if child.pid in self._live:
                self._send(child.pid, number)

    def _signal_all(self, number: int) -> None:
        with self._lock:
            for pid in self._live:
                self._send(pid, number)

    def _send(self, pid: int, number: int) -> None:
        """Send a signal; a polite one to the session within bubblewrap, which would end without a word to it."""
        inner = _inner_session(pid) if pid in self._wrapped and number != signal.SIGKILL else 0
        signal_group(inner or pid, number)

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
            self._in_sessions.discard(guard.pid)
        LockWaits.stopping = False

    def _tell_guard(self, line: bytes) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(BrokenPipeError):  # somebody killed the guard: commands still run, unguarded
                self._guard.stdin.write(line)


# --- Commands that start us, or bring what an extra needs.

_PLACE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the package


def module_command(module: str, *words: str, python: str = sys.executable) -> list[str]:
    """A command that runs `main` of a module of this package, with words, in the Python that runs us or another."""
    start = f"import sys; sys.path.insert(0, {_PLACE!r}); from {module} import main; sys.exit(main(sys.argv[1:]))"
    return [python, "-P", "-c", start, *words]


def install_command(extra: str) -> str:
    """The command that brings what an extra needs into the Python that runs us.

    Outside of a checkout it names the packages themselves: on PyPI our name is that of somebody else's package."""
    from importlib.metadata import PackageNotFoundError, requires  # here: only messages need it

    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if os.path.exists(f"{_PLACE}/pyproject.toml"):
        return f"{pip} -e {shlex.quote(f'{_PLACE}[{extra}]')}"
    try:
        found = [line.partition(";") for line in requires("coppice") or ()]
    except PackageNotFoundError:  # the bare package on a path
        return f"{pip} what the extra `{extra}` of pyproject.toml names"
    marks = (f'extra == "{extra}"', f"extra == '{extra}'")
    return f"{pip} {shlex.join(name.strip() for name, _, mark in found if any(each in mark for each in marks))}"
