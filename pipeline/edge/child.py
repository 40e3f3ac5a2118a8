"""A child that leads a process group: has it ended, and signals to its group, without ever asking how it ended.

Until somebody asks, its number is not given to another process."""

from __future__ import annotations

import os
import select
import sys
from contextlib import closing, suppress
from subprocess import Popen


def has_ended(child: Popen[bytes]) -> bool:
    return child.returncode is not None or _ended(child.pid, wait=False)


def await_end(child: Popen[bytes]) -> None:
    if child.returncode is None:
        _ended(child.pid, wait=True)


def _ended(pid: int, wait: bool) -> bool:
    if sys.platform == "darwin" and sys.version_info < (3, 13):  # whose Python has no waitid
        with closing(select.kqueue()) as queue:
            ends = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            return bool(queue.control([ends], 1, None if wait else 0))
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | (0 if wait else os.WNOHANG)) is not None
    except ChildProcessError:  # another thread has asked
        return True


def signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone already, or not ours to end
        os.killpg(pid, number)
