"""Starts the guard: a process of its own, which outlives us to end what we leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def start_guard(marks: Sequence[str], locks: Sequence[int], variable: str) -> subprocess.Popen[bytes]:
    """Without the mark of a build whose command we may be: if that one is killed, our guard must outlive us."""
    guard = os.path.join(os.path.dirname(__file__), "guard.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard, os.pathsep.join(sys.path), *marks],
        env={name: value for name, value in os.environ.items() if name != variable},
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=locks,
    )
