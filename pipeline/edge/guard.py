"""Outlives a killed build for a moment, to end the commands it left behind.  Run as a script, without site-packages.

Lines on standard input: `+PID` a session was started, `-PID` it is over, `bye` the build ended in order."""

import os
import signal
import sys
import time


def sessions() -> tuple[set[int], bool]:
    """The sessions alive when the input ended, and whether the build had said goodbye."""
    live: set[int] = set()
    for line in sys.stdin:
        if line == "bye\n":
            return live, True
        (live.add if line[0] == "+" else live.discard)(int(line[1:]))
    return live, False


def strays(live: set[int], mark: str) -> list[int]:
    """Processes of those sessions, and any that carry the build's mark in their environment."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and (
                os.getsid(process.pid) in live or process.environ().get("COPPICE_FOLDER") == mark
            ):
                found.append(process.pid)
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or another user's
    return found


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    live, goodbye = sessions()
    if goodbye:
        return
    sys.path[:] = sys.argv[2].split(os.pathsep)
    quiet = 0
    while quiet < 3:  # a child caught between fork and exec shows its mark only a moment later
        found = strays(live, sys.argv[1])
        quiet = 0 if found else quiet + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.05)


main()
