"""Grades of cages: what each needs of this machine, which can be had, and the cure for one that cannot.

Everything is tried, not looked up: a system may have a thing and forbid it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from pipeline.core.cages import (
    AUTO,
    FULL,
    ISOLATED,
    LANDLOCK,
    LOCAL,
    NO_NETWORK,
    PLAIN,
    TRUSTED,
    CageKeys,
)
from pipeline.machine import kernel


class Primitive(NamedTuple):
    """Something that cages are made of: what it is called here, empty if it is lacking; and the cure."""

    found: str
    cure: str = ""


UNSHARED = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
_TRIAL = ("--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
_UBUNTU = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"


@lru_cache(maxsize=1)
def bubblewrap() -> Primitive:
    """Bubblewrap, tried as commands are started; or why it cannot be had."""
    if sys.platform != "linux":
        return Primitive("", f"bubblewrap needs Linux; this is {platform.system()}")
    program = shutil.which("bwrap")
    if program is None:
        return Primitive("", "bubblewrap is not installed: apt install bubblewrap")
    if not kernel.filter_program((kernel.UNIX,)):
        return Primitive("", f"there is no system call filter for the processor {platform.machine()}")
    words = [program, *UNSHARED, *_TRIAL, "--cap-drop", "ALL", "--", "/bin/sh", "-c", ":"]
    try:
        tried = subprocess.run(words, env={}, capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return Primitive("", f"{program} did not end")
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("bwrap: ")
        return Primitive("", f"bubblewrap cannot make a sandbox here ({said}): {_cure_of_namespaces()}")
    return Primitive(program)


def _cure_of_namespaces() -> str:
    """The way to let an ordinary user make namespaces, by what keeps it from that."""
    if _setting(_UBUNTU) == "1":
        return f"AppArmor forbids it; sudo sysctl -w {_UBUNTU.removeprefix('/proc/sys/').replace('/', '.')}=0"
    if _setting(_DEBIAN) == "0":
        return f"sudo sysctl -w {_DEBIAN.removeprefix('/proc/sys/').replace('/', '.')}=1"
    if _setting("/proc/sys/user/max_user_namespaces") == "0":
        return "sudo sysctl -w user.max_user_namespaces=15000"
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        flags = " ".join(f"--security-opt {name}=unconfined" for name in ("seccomp", "apparmor", "systempaths"))
        return f"in Docker, start the container with {flags}"
    return "user namespaces are forbidden on this machine"


def _setting(path: str) -> str:
    with suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()
    return ""


def landlock() -> Primitive:
    """Landlock with the filter of system calls that belongs to it; or why it cannot be had."""
    version = kernel.landlock_version()
    if not version:
        return Primitive("", "the kernel has no Landlock of version 2 or later: Linux 5.19, with lsm=landlock,…")
    if not kernel.filter_program(()):
        return Primitive("", f"there is no system call filter for the processor {platform.machine()}")
    return Primitive(f"version {version}")


_NEEDS: Mapping[str, Callable[[], Primitive]] = {
    LANDLOCK: landlock,
    ISOLATED: bubblewrap,
    TRUSTED: bubblewrap,
}


def missing_for(grade: str) -> str:
    """The cure for what a grade lacks here; empty if it can be had, as `plain` can everywhere."""
    found = _NEEDS[grade]() if grade in _NEEDS else Primitive(grade)
    return "" if found.found else found.cure


@lru_cache(maxsize=1)
def strongest() -> str:
    """The strongest grade that this machine has, but for a judge."""
    return next((grade for grade in (ISOLATED, LANDLOCK) if not missing_for(grade)), PLAIN)


def resolve_grade(named: str, judged: bool = False) -> str:
    """The grade of a command: what it is named, or the strongest there is.  `judged`: a judge apart scores it."""
    grade = strongest() if named in ("", AUTO) else ISOLATED if named == TRUSTED else named
    return TRUSTED if grade == ISOLATED and judged else grade


def resolve_network(named: str, grade: str) -> str:
    """The network of a command for which none is named: a loopback of its own, or none where that cannot be had."""
    if grade == PLAIN:
        return FULL
    return named or (NO_NETWORK if grade == LANDLOCK else LOCAL)


def lacking(keys: CageKeys) -> str:
    """Why a cage cannot be had here as it is named, with the cure; empty if it can."""
    if keys.is_named and (why := missing_for(keys.sandbox)):
        return f"sandbox: {keys.sandbox} cannot be had here: {why}"
    grade = resolve_grade(keys.sandbox)
    if keys.network == LOCAL and grade == LANDLOCK:
        return f"network: local needs namespaces, which landlock does without; use none or full, or {_next_text()}"
    if keys.network in (NO_NETWORK, LOCAL) and grade == PLAIN:
        return f"network: {keys.network} needs a cage: {_next_text()}"
    return ""


def _next_text() -> str:
    why = missing_for(ISOLATED)
    return f"see to it that isolated can be had: {why}" if why else "use `sandbox: isolated`"


def describe_auto(judged: bool, can_be_judged: bool = True) -> str:
    """The grade that `auto` gives on this machine, and what the next one needs, if there is one for such a command."""
    grade = resolve_grade(AUTO, judged)
    if grade == ISOLATED and not can_be_judged:
        return grade
    if grade == ISOLATED:
        return f"{grade}; trusted needs a judge apart: `answer:` and `judge:` in place of `run:`"
    return grade if grade == TRUSTED else f"{grade}; isolated cannot be had here: {missing_for(ISOLATED)}"
