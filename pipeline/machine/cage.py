"""Cages: what a command may see, change and reach, by grades.

plain     nothing holds it but the limits that were named.  Nobody can look into us, whose environment has the keys
landlock  it reads what is visible and writes what is writable, by Landlock; no sockets, no memory that outlives it
isolated  bubblewrap: a machine of its own, in which there is nothing but that; it ends with all that it started
trusted   isolated, and its results are made by a judge, which is another command

What is visible: the system's programs, those on its PATH, what its words and variables name, and what it is given.
Of two paths of which one lies in the other, the deeper one counts: what is hidden in a visible folder stays hidden."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, lru_cache, partial
from subprocess import Popen
from tempfile import mkdtemp
from typing import IO, NamedTuple

from pipeline.core.cages import FULL, ISOLATED, LANDLOCK, NO_NETWORK, PLAIN, TRUSTED
from pipeline.machine import kernel
from pipeline.machine.grades import UNSHARED, bubblewrap
from pipeline.machine.limits import CageLimits, CappedLog, Group, Watch, limit_of_signal, limiting_shell, supervise
from pipeline.machine.process import Environment, Exit, Launch, Processes, Redactor, Starter
from pipeline.store.folders import delete_tree
from pipeline.store.secret import key_path


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
    outer = group.joining_shell if group else []
    if not cage.is_walled:
        yield Launch([*outer, *inner], env, cage.folder)
        return
    env = _cage_environment(cage, env)
    with ExitStack() as stack:
        if cage.grade == LANDLOCK:
            joins = dict.fromkeys(group.doors if group else (), kernel.write_access())
            fd = kernel.open_ruleset(_landlock_rules(cage, words, env) | joins)
            stack.callback(os.close, fd)
            families = (kernel.INET, kernel.INET6) if cage.network == FULL else ()
            program = kernel.filter_program(families, lasting=False)
            call = partial(kernel.run_limited, ruleset=fd, program=program, capabilities=_capabilities(kernel.ALL))
            yield Launch([*outer, *inner], env, cage.folder, call=call)
            return
        networked = [] if cage.network == NO_NETWORK else [kernel.INET, kernel.INET6]
        program = kernel.filter_program([kernel.UNIX, *networked], cage.nested)
        rules, status = (stack.enter_context(_memory_file(content)) for content in (program, b""))
        fds = (rules.fileno(), status.fileno())
        wrapped = [*_bubblewrap_words(cage, words, env), "--seccomp", str(fds[0]), "--json-status-fd", str(fds[1])]
        # started by the thread that waits for it: bubblewrap dies with the thread that has started it
        yield Launch([*outer, *wrapped, "--", *_in_few_words(inner)], env, "/", fds, _start, fds[1])


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


def fault_of(status: int, code: int) -> str:
    """Words for a failure of bubblewrap itself, before there was a command; empty otherwise."""
    if status < 0 or code != 1:
        return ""
    said = os.pread(status, 4096, 0).decode(errors="replace")
    return "" if "exit-code" in said else "bubblewrap could not make the cage"


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
        yield cage._replace(writable=(*cage.writable, where), scratch=where)
    finally:
        delete_tree(where)


# --- What is visible.

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc"),
    *("/sys/devices/system/cpu", "/run/current-system"),
)
_KERNEL = ("/dev", "/proc", "/sys")  # a cage has its own
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Folders of a prefix, where the prefix itself holds more than programs, as ~/.local does.
_OF_PREFIX = ("bin", "lib", "lib64", "libexec", "include")


@lru_cache(maxsize=8)
def _program_folders(path: str) -> tuple[str, ...]:
    """The system, our Python, and the installations of what is on a PATH."""
    found = dict.fromkeys(_SYSTEM)
    found |= dict.fromkeys(_installation(os.path.dirname(sys.executable)))
    found |= dict.fromkeys((sys.prefix, sys.base_prefix, os.path.realpath("/etc/resolv.conf")))
    for folder in filter(os.path.isabs, path.split(":")):
        found |= dict.fromkeys(_installation(folder))
    return tuple(each for each in found if each and os.path.exists(each))


def _installation(folder: str) -> Iterator[str]:
    """All that belongs to the programs of a folder: its prefix, and of a virtual environment the Python behind it."""
    yield folder
    prefix = os.path.dirname(os.path.normpath(folder))
    if os.path.basename(os.path.normpath(folder)) not in ("bin", "sbin") or not os.path.isdir(f"{prefix}/lib"):
        return
    if _is_broad(prefix) or prefix == os.path.expanduser("~/.local"):
        yield from (os.path.join(prefix, name) for name in _OF_PREFIX)
        return
    yield prefix
    yield from _python_behind(prefix)


def _python_behind(folder: str) -> Iterator[str]:
    """The installation that a virtual environment stands on."""
    if home := re.search(r"^home *= *(\S.*)$", _setting_text(f"{folder}/pyvenv.cfg"), re.MULTILINE):
        yield os.path.dirname(home[1])


def _setting_text(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""


Resolve = Callable[[str], str]


def _is_broad(path: str, real: Resolve = os.path.realpath) -> bool:
    """Check if a folder holds all that somebody has: its home, or what lies above it."""
    return f"{real(os.path.expanduser('~'))}/".startswith(f"{real(path).rstrip('/')}/")


_PATHS = re.compile(r"/[^\s'\"=:;,()<>|&`$]+")


def _named_paths(words: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """Paths that are there and stand in the words or the variables of a command."""
    texts = [
        *words,
        *(value for name, value in env.items() if name not in ("PATH", "HOME", "TMPDIR", "COPPICE_FOLDER")),
    ]
    for text in texts:
        for path in {text, *_PATHS.findall(text), *_split(text)}:
            if os.path.isabs(path) and not _is_in(path, _KERNEL) and os.path.exists(path):
                yield from _python_behind(path)
                yield os.path.abspath(path).replace("//", "/", 1)  # two slashes at the beginning may stay two


def _split(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text)
    return []


@lru_cache(maxsize=1)
def _system_secrets() -> tuple[str, ...]:
    """Files of the system that are not for everybody: whoever is root inside could read them; and our own key."""
    found = ["/etc/ssl/private", "/etc/ssh", key_path()]
    with suppress(OSError), os.scandir("/etc") as entries:
        found += [each.path for each in entries if not each.is_symlink() and not each.stat().st_mode & 0o004]
    return tuple(path for path in found if os.access(path, os.R_OK) or os.access(path, os.X_OK))


def visible_path(path: str) -> str:
    """A path of `visible:` as a command sees it: `~/…` is in our HOME, others begin at the project."""
    return os.path.abspath(os.path.expanduser(path))


READ, WRITE, HIDE, OWN = "read", "write", "hide", "own"
_RANKS = (READ, HIDE, OWN, WRITE)  # of a path that is several of these, the last counts


def seen_paths(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Rights of a command to each path, the outer ones first: READ it, WRITE to it, not see it, have its OWN."""
    project, home, real = os.getcwd(), env.get("HOME", ""), cache(os.path.realpath)  # many are asked for again
    programs = (*_program_folders(env.get("PATH", "")), *_program_files(words[0], env))
    own = [real(path) for path in cage.writable]
    named = [*dict.fromkeys((*programs, *_named_paths(words, env)))]
    named = [path for path in named if not _is_broad(path, real) and not _is_in(path, own, real)]
    hidden = [*cage.hidden, *_system_secrets(), *(f"{project}/{name}" for name in ("runs", ".git", ".env"))]
    hidden = [real(path) for path in hidden if os.path.lexists(path)]
    sealed = [real(path) for path in cage.hidden]
    runs = f"{real(project)}/runs/"
    wanted = [
        (READ, path)
        for path in named
        if path in programs or not _is_in(path, hidden, real) or _is_of_run(real(path), runs)
    ]
    wanted += [(READ, path) for path in cage.visible if not _is_in(path, sealed, real) and os.path.lexists(path)]
    wanted += [(HIDE, path) for path in hidden]
    wanted += [(OWN, path) for path in ("/tmp", "/var/tmp", "/dev/shm", home) if os.path.isabs(path) and path != "/"]
    wanted += [(WRITE, path) for path in cage.writable]
    found: dict[str, str] = {}
    for how, path in wanted:
        for each in {os.path.normpath(path), real(path)}:
            found[each] = max(how, found.get(each, READ), key=_RANKS.index)
    return _without_repetition(dict(sorted(found.items(), key=lambda pair: (pair[0].count("/"), pair[0]))))


def _is_of_run(real: str, runs: str) -> bool:
    """Check if a path is of a run, and more than all of it: who writes a spec may name such a one."""
    return real.startswith(runs) and "/" in real.removeprefix(runs).strip("/") and not real.startswith(f"{runs}.")


def _is_in(path: str, folders: Iterable[str], real: Resolve = os.path.realpath) -> bool:
    place = f"{real(path)}/"
    return any(place.startswith(f"{folder}/") for folder in folders)


def _without_repetition(found: Mapping[str, str]) -> dict[str, str]:
    """The same without what the folder around it says already; nothing is hidden where nothing is seen."""
    kept: dict[str, str] = {}
    for path, how in found.items():
        above = os.path.dirname(path)
        while len(above) > 1 and above not in kept:
            above = os.path.dirname(above)
        around = kept.get(above, "")
        if how == around or (how == HIDE and around in ("", OWN)):
            continue
        kept[path] = how
    return kept


def _program_files(program: str, env: Mapping[str, str]) -> Iterator[str]:
    """The program behind a name on the PATH, and where it is installed."""
    path = shutil.which(program, path=env.get("PATH", ""))
    real = os.path.realpath(path) if path else ""
    if path and real != path:
        yield os.path.dirname(real)
        yield from _installation(os.path.dirname(real))


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


def _bubblewrap_words(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The words that make the cage.  Mounts are in the order of depth, so that the deeper one counts."""
    unshared = [*UNSHARED, *(() if cage.network == FULL else ("--unshare-net",))]
    made = [bubblewrap().found, *unshared, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    made += ["--hostname", "coppice", "--proc", "/proc", "--dev", "/dev"]
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
