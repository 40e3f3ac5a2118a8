"""Guard of a build, which outlives it for a moment to end the commands it left behind.  Run as a script.

States:

    listening  the build runs: `+PID` on standard input for a session that started, `-PID` for one that is over
    hunting    standard input has ended, so the build has: kill what is left, look again after PAUSE
    done       nothing was found QUIET times in a row; once is enough when `.` came last (the build ended in order)
               and no session was left

The guard keeps the locks of the build's runs open, so that the next build waits for its end.  It runs without
site-packages.  Arguments: where to find psutil, then the marks that the build's commands carry in their environment."""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator

MARK = b"COPPICE_FOLDER="
# So often in a row nothing may be found: a child caught between fork and exec shows its mark only a moment later.
QUIET = 3
PAUSE = 0.02

ProcessList = Iterable[tuple[int, bytes]]


def read_sessions(lines: Iterable[str]) -> tuple[set[int], bool]:
    """Collect the sessions that were alive when the build ended, and whether it ended in order."""
    live: set[int] = set()
    in_order = False
    for line in lines:
        if line[0] == ".":
            in_order = True
        else:
            (live.add if line[0] == "+" else live.discard)(int(line[1:]))
    return live, in_order


def from_proc() -> Iterator[tuple[int, bytes]]:
    """Yield every living process and its environment, as far as we may look."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb", buffering=0) as file:
                environ = file.read()
            if not environ and is_zombie(name):
                continue
        except OSError:
            continue  # ended meanwhile, or another user's
        yield int(name), environ


def is_zombie(name: str) -> bool:
    """Check if it has ended without being reaped: in a container whose first process reaps none, for ever."""
    with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
        return file.read().rpartition(b") ")[2][:1] == b"Z"


def from_psutil() -> Iterator[tuple[int, bytes]]:
    """Yield the same where there is no /proc."""
    import psutil

    for process in psutil.process_iter(["environ", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE:
            environ = process.info["environ"] or {}
            yield process.pid, b"\0".join(os.fsencode(f"{name}={value}") for name, value in environ.items())


def strays(processes: ProcessList, live: set[int], marks: set[bytes]) -> Iterator[int]:
    """Yield processes of those sessions and any that carry a mark, each right after it was looked at."""
    for pid, environ in processes:
        try:
            marked = MARK in environ and not marks.isdisjoint(environ.split(b"\0"))
            if pid != os.getpid() and (marked or os.getsid(pid) in live):
                yield pid
        except ProcessLookupError:
            continue


def kill_all(pids: Iterable[int]) -> int:
    """Kill processes; gives how many there were."""
    found = 0
    for pid in pids:
        found += 1
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return found


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    marks = {MARK + os.fsencode(mark) for mark in sys.argv[2:]}
    live, in_order = read_sessions(sys.stdin)
    sys.path[:] = sys.argv[1].split(os.pathsep)
    processes = from_proc if os.path.isdir("/proc/self") else from_psutil
    quiet, enough = 0, 1 if in_order and not live else QUIET
    while True:
        found = kill_all(strays(processes(), live, marks))
        quiet = 0 if found else quiet + 1
        if quiet >= enough:
            return
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
