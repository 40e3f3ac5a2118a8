"""Who does something in a test: root, or an ordinary user, whom root can be for a while."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kit.project import ROOT

USER = 20_000 + os.getpid() % 10_000  # whom nobody knows
NO_PYTHON = "an ordinary user has no Python here that finds this checkout and what it needs"
USERS = ["root", "user"] if os.geteuid() == 0 else ["user"]


def python_of(user: str, environment: Mapping[str, str], module: str) -> str:
    """A Python that this user can start, and which finds this module; empty if there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        words = [python, "-c", f"import sys, {module}; assert sys.version_info >= (3, 11)"]
        try:
            tried = subprocess.run(words, env=environment, **identity(user), capture_output=True, check=False)
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return ""


def environment_in(home: str) -> dict[str, str]:
    """Variables by which each Python finds this checkout, and what is installed for ours."""
    places = [ROOT, ROOT / "tests", *(path for path in sys.path if path.endswith("site-packages"))]
    return {**os.environ, "PYTHONPATH": ":".join(map(str, places)), "HOME": home}


def identity(user: str) -> dict[str, Any]:
    """As whom `subprocess` starts something."""
    changes = user == "user" and os.geteuid() == 0
    return {"user": USER, "group": USER, "extra_groups": [], "cwd": "/"} if changes else {}


def is_confined() -> bool:
    """Check if this machine forbids by itself what a Linux usually allows, as a container does."""
    status = Path("/proc/self/status").read_text()
    named = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    lacks = os.geteuid() == 0 and int(named["CapBnd"], 16) & 0xFFFFFFFFF != 0xFFFFFFFFF
    return lacks or named["Seccomp"] != "0"
