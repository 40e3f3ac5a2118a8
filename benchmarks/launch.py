"""Starts one command, waits for it and prints `exit-code wall-seconds cpu-seconds peak-kilobytes`.

Runs as a process of its own, with next to nothing imported: a child's peak memory as the kernel counts it
begins at the memory of the process that forked it, which must therefore be small.
"""

import os
import sys
import time

KILOBYTE = 1 if sys.platform == "linux" else 1024


def main(log: str, *command: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    streams = [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    started = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=streams)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - started
    cpu = usage.ru_utime + usage.ru_stime
    print(os.waitstatus_to_exitcode(status), wall, cpu, usage.ru_maxrss // KILOBYTE)


if __name__ == "__main__":
    main(*sys.argv[1:])
