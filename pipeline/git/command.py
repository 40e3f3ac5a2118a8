"""The git executable, run without anybody's configuration, hooks or prompts, and with a time limit."""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from pipeline.core.outcome import KILLED_FROM_OUTSIDE, PROGRAM_MISSING
from pipeline.errors import Unavailable, cut_text
from pipeline.machine.failures import FROM_OUTSIDE, full_disk
from pipeline.machine.process import has_ended, set_variables, signal_group
from pipeline.store.flock import file_lock

TIMEOUT = 600.0
GIT_KILL_AFTER = 3.0
# Variables of the caller that git needs to be found and to start.
_ALLOWED = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
_LONGEST = 500  # characters of a message, which may name a path
_SHA = re.compile(r"[0-9a-f]{40}")
# What git says at the end of a line where it found no room; of some writes it only says that they failed.
_NO_ROOM = re.compile(r"(?:No space left on device|Disk quota exceeded|Out of diskspace)$", re.MULTILINE)
_WRITING = frozenset(("add", "apply", "hash-object", "init", "pack-objects", "read-tree", "reset", "update-index"))
_WRITING |= {"update-ref", "worktree", "write-tree"}


def _variables_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that set these settings; in words of the command line, a name could hold no `=`."""
    count = {"GIT_CONFIG_COUNT": str(len(settings))}
    keys = {f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(settings)}
    return count | keys | {f"GIT_CONFIG_VALUE_{i}": value for i, value in enumerate(settings.values())}


# Settings above those of any repository, for all that could start a program or make bytes differ between machines.
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
# Of the user's configuration, what would start programs where git only reads.
_NO_PROGRAMS = {name: _CONFIG[name] for name in ("core.fsmonitor", "core.hooksPath")}
NO_SETTINGS: Mapping[str, str] = {}
# What is changed, in a form to be parsed.
STATUS = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all")
# Only the configuration of the repository is read.
SETTINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **_variables_of(_CONFIG),
    "GIT_ALLOW_PROTOCOL": "none",  # nothing is fetched: missing objects are an error
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # looking at a repository leaves its index as it is
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages are read
}


class _Child(subprocess.Popen[bytes]):
    def wait(self, timeout: float | None = None) -> int:
        """Wait by the kernel's notice: Python only polls, with pauses longer than git runs."""
        if timeout is not None and sys.platform == "linux" and self.returncode is None:
            with suppress(OSError):  # an older kernel
                ended = os.pidfd_open(self.pid)
                try:
                    waiting = select.poll()
                    waiting.register(ended, select.POLLIN)
                    waiting.poll(max(timeout, 0.0) * 1000)
                finally:
                    os.close(ended)
        return super().wait(timeout)


class GitProblem(Exception):
    """A failure of git: one line that says what and where."""


class GitOutage(Unavailable):
    """An outage of git itself, which says nothing of what it was asked to do, so it is no GitProblem.

    `reason`: one of OUTAGE_WORDS."""

    def __init__(self, why: str, reason: str) -> None:
        super().__init__(why)
        self.reason = reason


class CandidateProblem(GitProblem):
    """A fault of the candidate, not of the tool: recorded as its failure."""


def git(
    *words: str,
    repo: str = "",
    work: str = "",
    index: str = "",
    cwd: str = "",
    stdin: bytes = b"",
    keep: Sequence[int] = (),
    timeout: float = TIMEOUT,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> bytes:
    """Run git; its output.  `repo` is the git directory: git searches for one only without it.

    A disk without room for what it writes is an OSError, as of any other write, and no problem of git's.

    `keep`: locks that stay locked until git has ended, even if we are killed meanwhile.  `settings`: more of them."""
    places = {"GIT_DIR": repo, "GIT_WORK_TREE": work, "GIT_INDEX_FILE": index}
    env = set_variables(_ALLOWED) | SETTINGS | {name: place for name, place in places.items() if place}
    env |= _variables_of({**_CONFIG, **settings}) if settings else {}
    return _run(words, env, cwd or work or repo or None, stdin, keep, timeout)


def users_git(*words: str, cwd: str) -> bytes:
    """Run git with the user's own configuration: only to read it, and to learn which repositories it trusts."""
    env = set_variables((*_ALLOWED, "HOME", "XDG_CONFIG_HOME")) | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    env |= _variables_of(_NO_PROGRAMS)
    return _run(words, env, cwd, b"", (), TIMEOUT)


def repository_lock(repo: str) -> AbstractContextManager[int]:
    """Hold the lock for changes of a repository's worktrees and set-up."""
    return file_lock(f"{repo}/coppice.lock")


def checked_sha(text: str) -> str:
    """A hash for git's command line, checked: records can be edited by hand."""
    if not _SHA.fullmatch(text):
        raise GitProblem(f"{cut_text(repr(text))} is not a commit: 40 hexadecimal digits are")
    return text


def split_names(listed: bytes) -> list[str]:
    """The names of a list that ends each with a NUL; they need not be UTF-8."""
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def _run(
    words: Sequence[str], env: dict[str, str], cwd: str | None, stdin: bytes, keep: Sequence[int], timeout: float
) -> bytes:
    try:
        child = _Child(
            ["git", *words], env=env, cwd=cwd, stdin=-1, stdout=-1, stderr=-1, process_group=0, pass_fds=keep
        )
    except FileNotFoundError as error:
        if cwd and not os.path.isdir(cwd):
            raise GitProblem(f"{cwd}: is gone") from error
        raise GitOutage("git was not found; a tree search needs it: install git", PROGRAM_MISSING) from error
    try:
        out, errors = child.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as error:
        raise GitOutage(f"git {words[0]} did not end within {timeout:g} s", KILLED_FROM_OUTSIDE) from error
    finally:
        _end(child)
    if child.returncode:
        why = f"git {words[0]}: {_error_line(errors) or f'ended with {child.returncode}'}"
        if _lacked_room(words[0], errors, [cwd or ".", *filter(None, map(env.get, ("GIT_DIR", "GIT_INDEX_FILE")))]):
            raise OSError(errno.ENOSPC, why, env.get("GIT_DIR", cwd))
        if -child.returncode in FROM_OUTSIDE:
            raise GitOutage(f"{why}: it was killed from outside, as for want of memory", KILLED_FROM_OUTSIDE)
        raise GitProblem(why)
    return out


def _lacked_room(word: str, errors: bytes, places: Sequence[str]) -> bool:
    """Check if git failed for want of room, by its words, or by how full the disks are now."""
    lines = "\n".join(line.strip() for line in errors.decode(errors="replace").splitlines())
    return word in _WRITING and bool(_NO_ROOM.search(lines) or full_disk(places, scratch=False))


def _end(child: subprocess.Popen[bytes]) -> None:
    """End git: first by SIGTERM, so that it removes its lock files, then all of its group by SIGKILL."""
    if child.returncode is None:
        signal_group(child.pid, signal.SIGTERM)
        last = time.monotonic() + GIT_KILL_AFTER
        while not has_ended(child) and time.monotonic() < last:
            time.sleep(0.01)
        signal_group(child.pid, signal.SIGKILL)
        child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            stream.close()


def _error_line(errors: bytes) -> str:
    """The errors that git printed, without its hints and warnings."""
    lines = [line.strip() for line in errors.decode(errors="replace").splitlines()]
    wrong = [line for line in lines if line.startswith(("error:", "fatal:"))]
    return "; ".join(dict.fromkeys(wrong or lines))[:_LONGEST]
