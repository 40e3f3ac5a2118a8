"""Cages: what a command may see, change and reach, by grades.

plain     nothing holds it but the limits that were named.  Nobody can look into us, whose environment has the keys
landlock  it reads what is visible and writes what is writable, by Landlock; no sockets, no memory that outlives it
isolated  bubblewrap: a machine of its own, in which there is nothing but that; it ends with all that it started
trusted   isolated, and its results are made by a judge, which is another command

What is visible: the system's programs, those on its PATH, what its words and variables name, and what it is given."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from typing import IO, NamedTuple

from pipeline.core.cages import FULL, ISOLATED, LANDLOCK, NO_NETWORK, PLAIN, TRUSTED
from pipeline.machine import kernel
from pipeline.machine.grades import UNSHARED, bubblewrap
from pipeline.machine.limits import CageLimits, CappedLog, Group, Watch, limit_of_signal, supervise
from pipeline.machine.process import Environment, Exit, Launch, Processes
from pipeline.machine.redaction import Redactor
from pipeline.machine.usage import limit_process, limiting_shell
from pipeline.machine.visibility import (
    CPUS,
    HIDE,
    OWN,
    READ,
    WRITE,
    FoundProgram,
    entered_secrets,
    find_program,
    seen_paths,
    system_secrets,
)
from pipeline.store.flock import scratch_folder


class Cage(NamedTuple):
    """The cage of a command.  It starts in `folder`, writes to `writable` alone, and does not see `hidden`.

    `visible`: what it sees besides its programs and what its words name.  `nested`: it may make a sandbox of its own.
    `scratch`: for temporary files and HOME, where it has no file system of its own.  `project`: whose runs, repository
    and .env it does not see; without it that is the current folder.  All paths are absolute, and `plain` heeds none of
    them."""

    grade: str = PLAIN
    network: str = FULL
    limits: CageLimits = CageLimits()
    folder: str = "/"
    writable: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    nested: bool = False
    scratch: str = ""
    project: str = ""

    @property
    def is_walled(self) -> bool:
        return self.grade != PLAIN

    @property
    def needs_watching(self) -> bool:
        return self.is_walled or self.limits != CageLimits()


# --- Starting a command in its cage.


class _Launched(NamedTuple):
    """How to start a command in its cage, and what lets it begin once it is started."""

    launch: Launch
    release: Callable[[], None] = lambda: None


@contextmanager
def launching(cage: Cage, words: Sequence[str], env: Mapping[str, str], group: Group | None) -> Iterator[_Launched]:
    """Give, for the block, how to start a command in its cage.  OSError, as of `Popen`, if there is no such program."""
    program = find_program(words[0], env, cage.folder)
    env = _cage_environment(cage, env)
    with _WALLS[cage.grade](cage, words, env, program) as launched:
        yield launched._replace(launch=_grouped(launched.launch, group)) if group else launched


def _grouped(launch: Launch, group: Group) -> Launch:
    """The same, as a member of control groups before it does anything."""
    return launch._replace(words=[*group.waiting_shell, *launch.words], call=partial(group.admit, launch.call))


@contextmanager
def _without_walls(cage: Cage, words: Sequence[str], env: Mapping[str, str], _: FoundProgram) -> Iterator[_Launched]:
    call = partial(kernel.run_limited, capabilities=_capabilities(kernel.PEEKING))
    yield _Launched(Launch([*limiting_shell(cage.limits), *words], env, cage.folder, call=call))


@contextmanager
def _in_landlock(cage: Cage, words: Sequence[str], env: Mapping[str, str], _: FoundProgram) -> Iterator[_Launched]:
    families = (kernel.INET, kernel.INET6) if cage.network == FULL else ()
    program = kernel.filter_program(families, lasting=False)
    fd = kernel.open_ruleset(_landlock_rules(cage, words, env))
    try:
        call = partial(kernel.run_limited, ruleset=fd, program=program, capabilities=_capabilities(kernel.ALL))
        yield _Launched(Launch([*limiting_shell(cage.limits), *words], env, cage.folder, call=call))
    finally:
        os.close(fd)


@contextmanager
def _in_bubblewrap(
    cage: Cage, words: Sequence[str], env: Mapping[str, str], program: FoundProgram
) -> Iterator[_Launched]:
    networked = () if cage.network == NO_NETWORK else (kernel.INET, kernel.INET6)
    rules = kernel.filter_program((kernel.UNIX, *networked), cage.nested)
    seen = seen_paths(cage, words, env)
    given = (path for path, how in seen.items() if how in (READ, WRITE) and path != CPUS)
    apart = not any(path.startswith(_ELSEWHERE) for path in given)
    starter = kernel.lasting_thread(bubblewrap().found, "/etc" if apart else "", entered_secrets() if apart else ())
    with ExitStack() as stack:
        files = [stack.enter_context(_memory_file(content)) for content in (rules, b"")]
        told, tell, wait, let_go = (stack.enter_context(end) for end in (*_pipe(), *_pipe()))
        fds = [file.fileno() for file in (*files, tell, wait)]
        wrapped = _bubblewrap_words(cage, seen, system_secrets() if starter.disowned else ())
        options = zip(("--seccomp", "--json-status-fd", "--info-fd", "--block-fd"), map(str, fds), strict=True)
        wrapped += [word for pair in options for word in pair]
        inner = words if program.is_evident(seen) and len(words) <= _MOST_WORDS else _in_shell(words)

        def release() -> None:
            tell.close()
            if pid := _first_process(told):
                limit_process(pid, cage.limits)
            let_go.write(b"1")

        # started by a thread that lives as long as we: bubblewrap dies with the thread that has started it
        yield _Launched(Launch([*wrapped, "--", *inner], env, "/", tuple(fds), starter.run, fds[1]), release)


_ELSEWHERE = ("/dev/", "/etc/", "/proc/", "/sys/")  # other than they are, to a starter with mounts of its own
_WALLS = {PLAIN: _without_walls, LANDLOCK: _in_landlock, ISOLATED: _in_bubblewrap, TRUSTED: _in_bubblewrap}


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    source, sink = os.pipe()
    return open(source, "rb", buffering=0), open(sink, "wb", buffering=0)


_FIRST_PROCESS = re.compile(rb'"child-pid": *([0-9]+)')


def _first_process(told: IO[bytes]) -> int:
    """The first process of a cage, as soon as bubblewrap has told of it; 0 if it has ended without."""
    said = b""
    while more := told.read(4096):
        said += more
        if found := _FIRST_PROCESS.search(said):
            return int(found[1])
    return 0


# Bubblewrap takes 9,000 words, its own among them; so many bytes may a text have, with room to spare.
_MOST_WORDS, _LONGEST_TEXT = 4000, 100_000


def _in_shell(words: Sequence[str]) -> Sequence[str]:
    """A shell that becomes the command, and says if it cannot; where there are very many words, they are its text."""
    if len(words) <= _MOST_WORDS:
        return ["/bin/sh", "-c", 'exec "$@"', "sh", *words]
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


def _capabilities(which: Sequence[int]) -> Sequence[int]:
    return which if kernel.is_root() else ()


@contextmanager
def _memory_file(content: bytes) -> Iterator[IO[bytes]]:
    with open(os.memfd_create("coppice", 0), "wb+", buffering=0) as file:
        file.write(content)
        file.seek(0)
        yield file


def fault_of(status: int, code: int) -> str:
    """Words for a failure of bubblewrap itself, before there was a command; empty otherwise."""
    if status < 0 or code != 1:
        return ""
    said = os.pread(status, 4096, 0).decode(errors="replace")
    return "" if "exit-code" in said else "bubblewrap could not make the cage"


def _await_namespace(status: int) -> None:
    """Wait for the end of all that was in a cage: bubblewrap goes a moment before, and leaves the rest to us."""
    if status >= 0 and (found := _FIRST_PROCESS.search(os.pread(status, 4096, 0))):
        first = int(found[1])
        with suppress(ChildProcessError):  # as long as it is our child, no other process has its number
            if os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                os.kill(first, signal.SIGKILL)  # it may have been made to go on
            os.waitpid(first, 0)


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
    with caged_scratch(cage) as cage, ExitStack() as stack:
        if group := Group.make(cage.limits):
            stack.callback(group.close)
        source, sink = os.pipe()
        stack.callback(os.close, source)
        ours = stack.enter_context(ExitStack())  # the end of the pipe that is the command's, until it has been started
        ours.callback(os.close, sink)
        capped = CappedLog(log, Redactor(env.secrets), cage.limits.log)
        watch = Watch(cage.limits, cage.writable, group)
        with launching(cage, words, env.variables, group) as (launch, release):
            out = sink if streams["stdout"] is None else streams["stdout"]
            child = processes.start(words, launch.env, launch=launch, stdin=streams["stdin"], stdout=out, stderr=sink)
            ours.close()
            try:
                with processes.deadline(child, timeout) as late:
                    release()
                    limit = supervise(child, source, capped, watch, partial(processes.kill, child))
            except BaseException:
                processes.end(child)
                raise
            processes.reap(child)
            _await_namespace(launch.status)
            fault = fault_of(launch.status, child.returncode)
            code = _inner_code(launch, child.returncode)
            enforced = watch.reached() if code else ""  # before its groups take no more members
        if group:
            group.end_members()  # one may hold the pipe
        capped.close(source)
        if code and not limit:
            limit = _limit_of_code(code, cage.limits) or enforced
    return Exit(code, late.is_set(), limit, "" if limit or late.is_set() else fault)


def _inner_code(launch: Launch, code: int) -> int:
    """The code of a command: bubblewrap says of a signal what a shell would."""
    return 128 - code if launch.status >= 0 and 128 < code <= 128 + signal.SIGRTMAX else code


def _limit_of_code(code: int, limits: CageLimits) -> str:
    """The limit of a process that the kernel enforced, by a signal that ended the command or what its shell ran."""
    return limit_of_signal(-code if code < 0 else code - 128, limits)


@contextmanager
def caged_scratch(cage: Cage) -> Iterator[Cage]:
    """Give a cage without a file system of its own a folder for temporary files and HOME, removed afterwards."""
    if cage.grade != LANDLOCK:
        yield cage
        return
    with scratch_folder("coppice-scratch-") as where:
        _link_into_home(where, cage.visible)
        yield cage._replace(writable=(*cage.writable, where), scratch=where)


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
    if cage.grade == PLAIN:
        return env
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


def _bubblewrap_words(cage: Cage, seen: Mapping[str, str], masked: Collection[str]) -> list[str]:
    """The words that make the cage.  Mounts are in the order of depth, so that the deeper one counts."""
    unshared = [*UNSHARED, *(() if cage.network == FULL else ("--unshare-net",))]
    made = [bubblewrap().found, *unshared, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    made += ["--hostname", "coppice", "--proc", "/proc", "--dev", "/dev"]
    if not cage.nested:  # by it the first process could be changed; and root inside owns settings of the machine
        made += ["--remount-ro", "/proc"]
    elif kernel.is_root():
        made += [word for path in _SETTINGS for word in ("--ro-bind-try", path, path)]
        made += ["--uid", _NOBODY, "--gid", _NOBODY]  # who is root in a namespace cannot make another within
    size = [] if cage.limits.memory is None else ["--size", str(cage.limits.memory // 2)]
    seen = {path: how for path, how in seen.items() if how != HIDE or path not in masked}
    for path, how in seen.items():
        made += [*size, "--tmpfs", path] if how == OWN else _mount_words(path, how)
    closed = ["/", "/dev", *(path for path, how in seen.items() if how == HIDE and os.path.isdir(path))]
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


def _beside(path: str, hidden: Iterable[str]) -> Iterable[str]:
    """A path, or what lies in it beside what is hidden."""
    inside = frozenset(each for each in hidden if each.startswith(f"{path}/"))
    if not inside:
        return [path]
    return _beside_secrets(path, inside) if inside <= system_secrets() else [*_look_beside(path, inside)]


@lru_cache(maxsize=8)
def _beside_secrets(path: str, inside: Set[str]) -> Sequence[str]:
    """The same of a folder of the system, looked at once: what comes later stays hidden."""
    return [*_look_beside(path, inside)]


def _look_beside(path: str, hidden: Set[str]) -> Iterator[str]:
    if not any(each.startswith(f"{path}/") for each in hidden):
        yield path
        return
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if entry.path not in hidden:
                yield from _look_beside(entry.path, hidden)
