"""Outlives a build for a moment, to end the commands it left behind.  Run as a script, without site-packages.

Standard input: a line `+PID` when a session is started, `-PID` when it is over; its end is the end of the build.
Arguments: the marks that the build's commands carry in their environment, then where to find psutil."""

import os
import signal
import sys
import time

MARK = b"COPPICE_FOLDER="


def sessions() -> set[int]:
    """The sessions that were alive when the build ended."""
    live: set[int] = set()
    for line in sys.stdin:
        (live.add if line[0] == "+" else live.discard)(int(line[1:]))
    return live


def processes() -> list[tuple[int, bytes]]:
    """Every process and its environment, as far as we may look."""
    if not os.path.isdir("/proc/self"):
        import psutil

        return [(p.pid, _joined(p.info["environ"])) for p in psutil.process_iter(["environ"])]
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                with open(f"/proc/{name}/environ", "rb") as file:
                    found.append((int(name), file.read()))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found


def _joined(environ: dict[str, str] | None) -> bytes:
    return b"\0".join(f"{name}={value}".encode() for name, value in (environ or {}).items())


def strays(live: set[int], marks: set[bytes]) -> list[int]:
    """Processes of those sessions, and any that carry a mark."""
    found = []
    for pid, environ in processes():
        try:
            marked = MARK in environ and not marks.isdisjoint(environ.split(b"\0"))
            if pid != os.getpid() and (marked or os.getsid(pid) in live):
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    marks = {MARK + os.fsencode(mark) for mark in sys.argv[2:]}
    live = sessions()
    sys.path[:] = sys.argv[1].split(os.pathsep)
    quiet = 0
    while quiet < (3 if live else 1):  # a child caught between fork and exec shows its mark only a moment later
        found = strays(live, marks)
        quiet = 0 if found else quiet + 1
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if found or live:
            time.sleep(0.02)


main()
