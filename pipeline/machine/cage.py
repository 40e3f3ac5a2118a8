"""Cages: what a command may see, change and reach, by grades.

plain     nothing holds it but the limits that were named.  Nobody can look into us, whose environment has the keys
landlock  it reads what is visible and writes what is writable, by Landlock; no sockets, no memory that outlives it
isolated  bubblewrap: a machine of its own, in which there is nothing but that; it ends with all that it started
trusted   isolated, and its results are made by a judge, which is another command

What is visible: the system's programs, those on its PATH, what its words and variables name, and what it is given."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from subprocess import Popen
from tempfile import mkdtemp
from typing import IO, NamedTuple

from pipeline.core.cages import FULL, ISOLATED, LANDLOCK, NO_NETWORK, PLAIN, TRUSTED
from pipeline.machine import kernel
from pipeline.machine.grades import UNSHARED, bubblewrap
from pipeline.machine.limits import CageLimits, CappedLog, Group, Watch, limit_of_signal, limiting_shell, supervise
from pipeline.machine.process import Environment, Exit, Launch, Processes, Starter
from pipeline.machine.redaction import Redactor
from pipeline.machine.visibility import HIDE, OWN, READ, WRITE, seen_paths
from pipeline.store.folders import delete_tree


class Cage(NamedTuple):
    """The cage of a command.  It starts in `folder`, writes to `writable` alone, and does not see `hidden`.

    `visible`: what it sees besides its programs and what its words name.  `nested`: it may make a sandbox of its own.
    `scratch`: for temporary files and HOME, where it has no file system of its own.  All paths are absolute, and
    `plain` heeds none of them."""

    grade: str = PLAIN
    network: str = FULL
    limits: CageLimits = CageLimits()
    folder: str = "/"
    writable: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    nested: bool = False
    scratch: str = ""

    @property
    def is_walled(self) -> bool:
        return self.grade != PLAIN

    @property
    def has_own_processes(self) -> bool:
        """Check if it cannot signal others, nor leave anything running."""
        return self.grade in (ISOLATED, TRUSTED)

    @property
    def needs_watching(self) -> bool:
        return self.is_walled or self.limits != CageLimits()


# --- Starting a command in its cage.


@contextmanager
def launching(cage: Cage, words: Sequence[str], env: Mapping[str, str], group: Group | None) -> Iterator[Launch]:
    """Give, for the block, how to start a command in its cage.  OSError, as of `Popen`, if there is no such program."""
    require_program(words[0], env, cage.folder)
    inner = [*limiting_shell(cage.limits, alone=cage.has_own_processes), *words]
    with _walled(cage, inner, words, env) as launch:
        yield _grouped(launch, group) if group else launch


def _grouped(launch: Launch, group: Group) -> Launch:
    """The same, as a member of control groups before it does anything."""

    def call(start: Starter) -> Popen[bytes]:
        return group.admit(lambda: launch.call(start))

    return launch._replace(words=[*group.waiting_shell, *launch.words], call=call)


@contextmanager
def _walled(cage: Cage, inner: Sequence[str], words: Sequence[str], env: Mapping[str, str]) -> Iterator[Launch]:
    """Give how to start `inner`, in which `words` are, with what walls its cage has."""
    if not cage.is_walled:
        yield Launch(inner, env, cage.folder)
        return
    env = _cage_environment(cage, env)
    with ExitStack() as stack:
        if cage.grade == LANDLOCK:
            fd = kernel.open_ruleset(_landlock_rules(cage, words, env))
            stack.callback(os.close, fd)
            families = (kernel.INET, kernel.INET6) if cage.network == FULL else ()
            program = kernel.filter_program(families, lasting=False)
            call = partial(kernel.run_limited, ruleset=fd, program=program, capabilities=_capabilities(kernel.ALL))
            yield Launch(inner, env, cage.folder, call=call)
            return
        networked = [] if cage.network == NO_NETWORK else [kernel.INET, kernel.INET6]
        program = kernel.filter_program([kernel.UNIX, *networked], cage.nested)
        rules, status = (stack.enter_context(_memory_file(content)) for content in (program, b""))
        fds = (rules.fileno(), status.fileno())
        wrapped = [*_bubblewrap_words(cage, words, env), "--seccomp", str(fds[0]), "--json-status-fd", str(fds[1])]
        # started by the thread that waits for it: bubblewrap dies with the thread that has started it
        yield Launch([*wrapped, "--", *_in_few_words(inner)], env, "/", fds, _start, fds[1])


# Bubblewrap takes 9,000 words, its own among them; so many bytes may a text have, with room to spare.
_MOST_WORDS, _LONGEST_TEXT = 4000, 100_000


def _in_few_words(words: Sequence[str]) -> Sequence[str]:
    """The same command, where it has very many words as the text of a shell that becomes it."""
    if len(words) <= _MOST_WORDS:
        return words
    texts, sizes = list[list[str]]([[]]), [0]
    for word in map(shlex.quote, words):
        size = len(os.fsencode(word)) + 1
        if sizes[-1] and sizes[-1] + size > _LONGEST_TEXT:
            texts.append([])
            sizes.append(0)
        texts[-1].append(f"{word} ")
        sizes[-1] += size
    inner = map("".join, texts)
    return ["/bin/sh", "-c", 'IFS=; eval "unset IFS; exec $*"', "sh", *inner]


def _start(start: Starter) -> Popen[bytes]:
    return start()


def _capabilities(which: Sequence[int]) -> Sequence[int]:
    return which if kernel.is_root() else ()


_LONGEST_FIRST_LINE = 256


@contextmanager
def _memory_file(content: bytes) -> Iterator[IO[bytes]]:
    with open(os.memfd_create("coppice", 0), "wb+", buffering=0) as file:
        file.write(content)
        file.seek(0)
        yield file


def require_program(program: str, env: Mapping[str, str], folder: str) -> None:
    """Raise what `Popen` would for a program that is not there: the shell in the cage says it in its own words."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    path = os.path.join(folder, program) if "/" in program else shutil.which(program, path=env.get("PATH", ""))
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    try:
        os.stat(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, program) from None
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)
    _require_interpreter(program, path)


def _require_interpreter(program: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(_LONGEST_FIRST_LINE)
    except PermissionError:  # it may be run, and not read
        return
    interpreter = start[2:].split(b"\n", 1)[0].split()[:1] if start.startswith(b"#!") else []
    if interpreter and not os.path.exists(interpreter[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if not interpreter and b"\0" not in start:  # a text, which a shell would take for its own
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), program)


def fault_of(status: int, code: int) -> str:
    """Words for a failure of bubblewrap itself, before there was a command; empty otherwise."""
    if status < 0 or code != 1:
        return ""
    said = os.pread(status, 4096, 0).decode(errors="replace")
    return "" if "exit-code" in said else "bubblewrap could not make the cage"


_FIRST_PROCESS = re.compile(rb'"child-pid": *([0-9]+)')


def _await_namespace(status: int) -> None:
    """Wait for the end of all that was in a cage: bubblewrap goes a moment before, and leaves the rest to us."""
    if status >= 0 and (found := _FIRST_PROCESS.search(os.pread(status, 4096, 0))):
        with suppress(ChildProcessError):
            os.waitpid(int(found[1]), 0)


def run_caged(
    processes: Processes,
    words: Sequence[str],
    env: Environment,
    log: IO[bytes],
    timeout: float | None,
    cage: Cage,
    streams: Mapping[str, IO[bytes] | int | None],
) -> Exit:
    """Run a command in its cage to its end, its timeout or a limit; nothing of it is left."""
    with scratch_folder(cage) as cage, ExitStack() as stack:
        group = Group.make(cage.limits)
        stack.callback(group.close if group else int)
        source, sink = os.pipe()
        stack.callback(os.close, source)
        capped = CappedLog(log, Redactor(env.secrets), cage.limits.log)
        watch = Watch(cage.limits, cage.writable, group)
        with launching(cage, words, env.variables, group) as launch:
            out = sink if streams["stdout"] is None else streams["stdout"]
            try:
                child = processes.start(
                    words, launch.env, launch=launch, stdin=streams["stdin"], stdout=out, stderr=sink
                )
            finally:
                os.close(sink)
            try:
                with processes.deadline(child, timeout) as late:
                    limit = supervise(child, source, capped, watch, partial(processes.kill, child))
            except BaseException:
                processes.end(child)
                raise
            processes.reap(child)
            _await_namespace(launch.status)
            enforced = watch.reached()  # before its groups take no more members
            fault = fault_of(launch.status, child.returncode)
            code = _inner_code(launch, child.returncode)
        if group:
            group.end_members()  # one may hold the pipe
        capped.close(source)
        limit = limit or (code and (_limit_of_code(code, cage.limits) or enforced)) or ""
    return Exit(code, late.is_set(), limit, "" if limit or late.is_set() else fault)


def _inner_code(launch: Launch, code: int) -> int:
    """The code of a command: bubblewrap says of a signal what a shell would."""
    return 128 - code if launch.status >= 0 and 128 < code <= 128 + signal.SIGRTMAX else code


def _limit_of_code(code: int, limits: CageLimits) -> str:
    """The limit of a process that the kernel enforced, by a signal that ended the command or what its shell ran."""
    return limit_of_signal(-code if code < 0 else code - 128, limits)


@contextmanager
def scratch_folder(cage: Cage) -> Iterator[Cage]:
    """Give a cage without a file system of its own a folder for temporary files and HOME, removed afterwards."""
    if cage.grade != LANDLOCK:
        yield cage
        return
    where = os.path.realpath(mkdtemp(prefix="coppice-cage-"))
    try:
        _link_into_home(where, cage.visible)
        yield cage._replace(writable=(*cage.writable, where), scratch=where)
    finally:
        delete_tree(where)


def _link_into_home(scratch: str, visible: Iterable[str]) -> None:
    """Have what is visible of our HOME stand at its place in this one, where programs look for it."""
    home = os.path.expanduser("~")
    for path in visible:
        if path.startswith(f"{home}/") and os.path.lexists(path):
            place = f"{scratch}/{os.path.relpath(path, home)}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if not os.path.lexists(place):
                os.symlink(path, place)


def _cage_environment(cage: Cage, env: Mapping[str, str]) -> dict[str, str]:
    """The environment in a cage: temporary files and HOME where it can write."""
    env = dict(env)
    if cage.grade == LANDLOCK:
        return env | dict.fromkeys(("TMPDIR", "HOME"), cage.scratch)
    if "TMPDIR" in env and not any(_is_within(env["TMPDIR"], path) for path in cage.writable):
        del env["TMPDIR"]
    return env


def _is_within(path: str, folder: str) -> bool:
    return f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(folder)}/")


# --- Bubblewrap and Landlock.

_SETTINGS = tuple(f"/proc/{name}" for name in ("sys", "fs", "driver", "scsi", "acpi", "dynamic_debug", "mtrr"))
_NOBODY = "65534"  # has a name everywhere
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def _bubblewrap_words(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The words that make the cage.  Mounts are in the order of depth, so that the deeper one counts."""
    unshared = [*UNSHARED, *(() if cage.network == FULL else ("--unshare-net",))]
    made = [bubblewrap().found, *unshared, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    made += ["--hostname", "coppice", "--proc", "/proc", "--dev", "/dev"]
    if kernel.is_root() and not cage.nested:  # root inside owns what root owns: settings of the whole machine
        made += ["--remount-ro", "/proc"]
    elif kernel.is_root():
        made += [word for path in _SETTINGS for word in ("--ro-bind-try", path, path)]
        made += ["--uid", _NOBODY, "--gid", _NOBODY]  # who is root in a namespace cannot make another within
    size = [] if cage.limits.memory is None else ["--size", str(cage.limits.memory // 2)]
    seen = seen_paths(cage, words, env)
    for path, how in seen.items():
        made += [*size, "--tmpfs", path] if how == OWN else _mount_words(path, how)
    closed = ["/", *(path for path, how in seen.items() if how == HIDE and os.path.isdir(path))]
    made += [word for path in closed for word in ("--remount-ro", path)]  # nothing is written there for nobody
    return [*made, "--chdir", cage.folder]


def _mount_words(path: str, how: str) -> list[str]:
    if how == WRITE:
        return ["--bind", path, path]
    if how == HIDE:
        return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind-try", path, path]


def _landlock_rules(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> dict[str, int]:
    """Rights below each path.  Of a folder that holds something hidden, what lies beside that."""
    seen = seen_paths(cage, words, env)
    hidden = {path for path, how in seen.items() if how == HIDE}
    rules = {f"/dev/{name}": kernel.write_access() for name in _DEVICES} | {"/proc": kernel.READ}
    for path, how in seen.items():
        if how == WRITE:
            rules[path] = kernel.write_access()
        elif how == READ:
            rules |= dict.fromkeys(_beside(path, hidden), kernel.READ)
    if seen.get(cage.folder) == READ:  # Python imports nothing from a folder that it cannot list
        rules.setdefault(cage.folder, kernel.LIST)
    return rules


def _beside(path: str, hidden: Iterable[str]) -> Iterator[str]:
    """Yield a path, or what lies in it beside what is hidden."""
    inside = [each for each in hidden if each.startswith(f"{path}/")]
    if not inside:
        yield path
        return
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in inside:
                yield from _beside(entry.path, inside)
