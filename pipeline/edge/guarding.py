"""Starts the guard: a process of its own, which outlives us to end what we leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence


def start_guard(marks: Sequence[str], locks: Sequence[int], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    guard = os.path.join(os.path.dirname(__file__), "guard.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", guard, os.pathsep.join(sys.path), *marks],
        env=dict(env),
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=locks,
    )
