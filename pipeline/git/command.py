"""The git executable: run with nobody's configuration, no hooks, no prompts, and never without an end."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from pipeline.errors import cut_text
from pipeline.machine.process import has_ended, signal_group

TIMEOUT = 600.0
GRACE = 3.0
# What git needs of the caller's environment to be found and to start.
_ALLOWED = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_LONGEST = 500  # of a message, which may name a path
_SHA = re.compile(r"[0-9a-f]{40}")
# Above the configuration of any repository: what could start a program, or make bytes differ between machines.
_CONFIG = {
    "commit.gpgSign": "false",
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.checkStat": "default",
    "core.excludesFile": "/dev/null",
    "core.fileMode": "true",
    "core.filesRefLockTimeout": "10000",  # many candidates end at once
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.logAllRefUpdates": "false",
    "core.packedRefsTimeout": "10000",
    "core.precomposeUnicode": "true",
    "core.protectHFS": "true",  # names that are `.git` to another system's file system
    "core.safecrlf": "false",
    "core.splitIndex": "false",
    "core.sparseCheckout": "false",
    "core.symlinks": "true",
    "core.trustctime": "true",
    "core.untrackedCache": "false",
    "gc.auto": "0",
    "index.skipHash": "false",
    "index.version": "2",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}
# Whose configuration is read: that of the repository alone.
SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": str(len(_CONFIG)),
    **{f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(_CONFIG)},
    **{f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(_CONFIG.values())},
    "GIT_ALLOW_PROTOCOL": "none",  # nothing is fetched: whatever is missing is said to be
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # looking at a repository leaves its index as it is
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages are read
}


class _Child(subprocess.Popen[bytes]):
    def wait(self, timeout: float | None = None) -> int:
        """Told of its end at once.  Python itself only looks from time to time, for longer than git runs."""
        if timeout is not None and sys.platform == "linux" and self.returncode is None:
            with suppress(OSError):  # an older kernel
                _await(os.pidfd_open(self.pid), max(timeout, 0.0))
        return super().wait(timeout)


class GitProblem(Exception):
    """Git cannot do what the search needs: one line that says what and where."""


class CandidateProblem(GitProblem):
    """The candidate's fault, not the tool's: to be recorded as its failure."""


def git(
    *words: str,
    repo: str = "",
    work: str = "",
    index: str = "",
    cwd: str = "",
    stdin: bytes = b"",
    keep: Sequence[int] = (),
    timeout: float = TIMEOUT,
) -> bytes:
    """What git prints.  `repo` is its directory: git is never left to search for one, except where there is no `repo`.

    `keep`: locks that stay locked until git has ended, even if we are killed meanwhile."""
    places = {"GIT_DIR": repo, "GIT_WORK_TREE": work, "GIT_INDEX_FILE": index}
    env = _environment() | SETTINGS | {name: place for name, place in places.items() if place}
    return _run(words, env, cwd or work or repo or None, stdin, keep, timeout)


def users_git(*words: str, cwd: str) -> bytes:
    """The same with the user's own configuration: only to ask what that says, and whose repositories it trusts."""
    home = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    env = _environment() | home | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    return _run(words, env, cwd, b"", (), TIMEOUT)


def checked_sha(text: str) -> str:
    """Records can be edited by hand; what stands on a command line of git is a commit and nothing else."""
    if not _SHA.fullmatch(text):
        raise GitProblem(f"{cut_text(repr(text))} is not a commit: 40 hexadecimal digits are")
    return text


def split_names(listed: bytes) -> list[str]:
    """Of a list that ends each name with a NUL; names need not be UTF-8."""
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ALLOWED if name in os.environ}


def _run(
    words: Sequence[str], env: dict[str, str], cwd: str | None, stdin: bytes, keep: Sequence[int], timeout: float
) -> bytes:
    try:
        child = _Child(
            ["git", *words], env=env, cwd=cwd, stdin=-1, stdout=-1, stderr=-1, start_new_session=True, pass_fds=keep
        )
    except FileNotFoundError as error:
        if cwd and not os.path.isdir(cwd):
            raise GitProblem(f"{cwd}: is gone") from error
        raise GitProblem("git was not found; a tree search needs it: install git") from error
    try:
        out, said = child.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as error:
        raise GitProblem(f"git {words[0]} did not end within {timeout:g} s") from error
    finally:
        _end(child)
    if child.returncode:
        raise GitProblem(f"git {words[0]}: {_error_line(said) or f'ended with {child.returncode}'}")
    return out


def _end(child: subprocess.Popen[bytes]) -> None:
    """Politely first: git then takes its lock files away.  Then whatever of its group did not listen."""
    if child.returncode is None:
        signal_group(child.pid, signal.SIGTERM)
        last = time.monotonic() + GRACE
        while not has_ended(child) and time.monotonic() < last:
            time.sleep(0.01)
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _await(fd: int, seconds: float) -> None:
    try:
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        waiting.poll(seconds * 1000)
    finally:
        os.close(fd)


def _error_line(said: bytes) -> str:
    """What git says went wrong; hints and warnings say how git is used by hand."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    wrong = [line for line in lines if line.startswith(("error:", "fatal:"))]
    return "; ".join(dict.fromkeys(wrong or lines))[:_LONGEST]
