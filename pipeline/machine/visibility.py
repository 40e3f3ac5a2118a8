"""Sight of a command in a cage: what it may do with paths of the system, of its words, of the spec.

Of two paths of which one lies in the other, the deeper one counts: what is hidden in a visible folder stays hidden."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pipeline.store.secret import key_path

if TYPE_CHECKING:
    from pipeline.machine.cage import Cage

CPUS = "/sys/devices/system/cpu"
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc"),
    *(CPUS, "/run/current-system"),
)
_KERNEL = ("/dev", "/proc", "/sys")  # a cage has its own
_MEMORY = "/dev/shm"  # has files as any other folder
_PACKAGES = "node_modules"  # a package finds those that it needs in the folders of this name above it
# Folders of a prefix, where the prefix itself holds more than programs, as ~/.local does.
_OF_PREFIX = ("bin", "lib", "lib64", "libexec", "include")


# What lies where no command may write is looked at once: places of programs, what in /etc is not for everybody.  What
# commands may write, what is hidden by name and what words name is looked at anew each time.


@lru_cache(maxsize=8)
def _program_folders(path: str, _where: tuple[str, str]) -> Mapping[str, str]:
    """The system, our Python, and the installations of what is on a PATH, with what each really is.

    `_where`: the project and the HOME for which it is asked, which are not shown as a whole."""
    found = dict.fromkeys(_SYSTEM)
    found |= dict.fromkeys(_installation(os.path.dirname(sys.executable)))
    found |= dict.fromkeys((sys.prefix, sys.base_prefix, os.path.realpath("/etc/resolv.conf")))
    for folder in filter(os.path.isabs, path.split(":")):
        found |= dict.fromkeys((*_installation(folder), *_linked_installations(folder)))
    there = [each for each in found if each and os.path.exists(each)]
    return {os.path.normpath(each): os.path.realpath(each) for each in there if not _is_broad(each)}


@lru_cache(maxsize=256)
def _real_folder(folder: str) -> str:
    """The place of a folder of a PATH."""
    return os.path.realpath(folder)


def _installation(folder: str) -> Iterator[str]:
    """All that belongs to the programs of a folder: its prefix, and of a virtual environment the Python behind it."""
    yield folder
    prefix = os.path.dirname(os.path.normpath(folder))
    if os.path.basename(os.path.normpath(folder)) not in ("bin", "sbin") or not os.path.isdir(f"{prefix}/lib"):
        return
    if _is_broad(prefix) or prefix == os.path.expanduser("~/.local") or _is_project(prefix):
        yield from (os.path.join(prefix, name) for name in _OF_PREFIX)
        return
    yield prefix
    yield from _python_behind(prefix)


def _linked_installations(folder: str) -> Iterator[str]:
    """The installations of programs to which a folder, such as ~/.local/bin, has links."""
    if not _is_in(folder, _SYSTEM):
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield from _installation_behind(os.path.realpath(entry.path))


def _installation_behind(real: str) -> Iterator[str]:
    """The program behind a link, and where it is installed: of a package of npm, with all beside it."""
    if os.path.isfile(real):
        yield real
        yield from [*_installation(os.path.dirname(real))][1:]  # but its folder
        above, packages, _ = real.partition(f"/{_PACKAGES}/")
        if packages:
            yield f"{above}/{_PACKAGES}"


def _is_project(prefix: str) -> bool:
    """Check if a folder with programs is no installation, but what somebody works on: ours, or a repository."""
    return f"{os.path.realpath('.')}/".startswith(f"{os.path.realpath(prefix)}/") or os.path.lexists(f"{prefix}/.git")


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


def _named_paths(words: Sequence[str], env: Mapping[str, str], own: Sequence[str], real: Resolve) -> Iterator[str]:
    """Paths that are there and stand in the words or the variables of a command.

    Of those in its own folders nothing follows: what lies there, a link for instance, is the candidate's word."""
    texts = [
        *words,
        *(value for name, value in env.items() if name not in ("PATH", "HOME", "TMPDIR", "COPPICE_FOLDER")),
    ]
    for text in texts:
        for path in {text, *_PATHS.findall(text), *_split(text)}:
            if not os.path.isabs(path) or _is_in(os.path.normpath(path), own, str):
                continue
            if os.path.exists(path) and (not _is_in(path, _KERNEL, real) or _is_in(path, (_MEMORY,), real)):
                yield from _python_behind(path)
                yield os.path.abspath(path).replace("//", "/", 1)  # two slashes at the beginning may stay two


_QUOTING = re.compile(r"[\"'\\]")


def _split(text: str) -> list[str]:
    if not _QUOTING.search(text):  # quicker, and comes to the same
        return re.split(r"[ \t\r\n]+", text)
    with suppress(ValueError):
        return shlex.split(text)
    return []


@lru_cache(maxsize=1)
def system_secrets() -> frozenset[str]:
    """Files and folders that are not for everybody, which root inside could read."""
    found, left = ["/etc/ssh"], ["/etc"]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for each in entries:
                mode = each.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o005 == 0o005:
                    left.append(each.path)
                elif stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not mode & 0o004):
                    found.append(each.path)
    return frozenset(path for path in found if os.access(path, os.R_OK) or os.access(path, os.X_OK))


@lru_cache(maxsize=1)
def entered_secrets() -> tuple[str, ...]:
    """The folders among them that others than the owner may enter."""
    return tuple(path for path in system_secrets() if os.path.isdir(path) and os.stat(path).st_mode & 0o005)


def visible_path(path: str, project: str = ".") -> str:
    """A path of `visible:` as a command sees it: `~/…` is in our HOME, others begin at the project."""
    return os.path.abspath(os.path.join(project, os.path.expanduser(path)))


READ, WRITE, HIDE, OWN = "read", "write", "hide", "own"
_RANKS = (READ, HIDE, OWN, WRITE)  # of a path that is several of these, the last counts


def seen_paths(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Rights of a command to each path, the outer ones first: READ it, WRITE to it, not see it, have its OWN."""
    project, home, real = cage.project or os.getcwd(), env.get("HOME", ""), _resolver()
    own = [each for path in cage.writable for each in (os.path.normpath(path), real(path))]
    search = [path for path in env.get("PATH", "").split(":") if not _is_own(path, own)]
    inside = tuple(f"{each}/" for each in own)
    programs = dict(_program_folders(":".join(search), (project, os.path.expanduser("~"))))
    programs |= {path: real(path) for path in _program_files(words[0], env, own, real) if not _is_broad(path, real)}
    given = {real(path) for path in cage.visible}
    private = [path for path in (f"{project}/.git", f"{project}/.env") if real(path) not in given]
    # the key may be made after the first cage
    hidden = [real(path) for path in (*cage.hidden, key_path(), f"{project}/runs", *private) if os.path.lexists(path)]
    hidden += [path for path in system_secrets() if os.path.lexists(path)]
    sealed, runs = [real(path) for path in cage.hidden], f"{real(project)}/runs/"
    found = {each: READ for pair in programs.items() if not f"{pair[1]}/".startswith(inside) for each in pair}
    wanted = [
        (READ, path)
        for path in dict.fromkeys(_named_paths(words, env, own, real))
        if path not in found
        and not (_is_broad(path, real) or _is_in(path, own, real))
        and (not _is_in(path, hidden, real) or _is_of_run(real(path), runs))
    ]
    wanted += [(READ, path) for path in cage.visible if not _is_in(path, sealed, real) and os.path.lexists(path)]
    wanted += [(HIDE, path) for path in hidden]
    wanted += [(OWN, path) for path in ("/tmp", "/var/tmp", _MEMORY, home) if os.path.isabs(path) and path != "/"]
    wanted += [(WRITE, path) for path in cage.writable]
    for how, path in wanted:
        for each in {path} if how == HIDE else {os.path.normpath(path), real(path)}:
            found[each] = max(how, found.get(each, READ), key=_RANKS.index)
    return _without_repetition(dict(sorted(found.items(), key=lambda pair: (pair[0].count("/"), pair[0]))))


def _resolver() -> Resolve:
    """The same as `realpath`, for many paths at one moment: of each folder it asks once."""

    @cache
    def real(path: str) -> str:
        folder, _, name = path.rpartition("/")
        if not folder.startswith("/") or name in ("", ".", ".."):
            return os.path.realpath(path)
        place = f"{real(folder).rstrip('/')}/{name}"
        return os.path.realpath(path) if os.path.islink(place) else place

    return real


def _is_of_run(real: str, runs: str) -> bool:
    """Check if a path is of a run, and more than all of it: who writes a spec may name such a one."""
    return real.startswith(runs) and "/" in real.removeprefix(runs).strip("/") and not real.startswith(f"{runs}.")


def _is_own(path: str, own: Sequence[str]) -> bool:
    """Check if a folder lies in what a command may write, where links are its own word."""
    return _is_in(path, own, _real_folder) or _is_in(os.path.normpath(path), own, str)


def _is_in(path: str, folders: Iterable[str], real: Resolve = os.path.realpath) -> bool:
    return f"{real(path)}/".startswith(tuple([f"{folder}/" for folder in folders]))


def _without_repetition(found: Mapping[str, str]) -> dict[str, str]:
    """The same without what the folder around it says already; nothing is hidden where nothing is seen."""
    kept: dict[str, str] = {}
    for path, how in found.items():
        above = path.rpartition("/")[0]
        while above and above not in kept:
            above = above.rpartition("/")[0]
        around = kept.get(above or "/", "")
        if how == around != OWN or (how == HIDE and around in ("", OWN)):  # one's own in one's own has to be made
            continue
        kept[path] = how
    return kept


def _program_files(program: str, env: Mapping[str, str], own: Sequence[str], real: Resolve) -> Iterator[str]:
    """The program behind a name on the PATH, with its folder, and where it is installed."""
    path = shutil.which(program, path=env.get("PATH", ""))
    if path and real(path) != path and not _is_in(os.path.normpath(path), own, str) and not _is_in(path, own, real):
        yield os.path.dirname(real(path))
        yield from _installation_behind(real(path))


# --- The program of a command.

_LONGEST_FIRST_LINE, _MACHINE_CODE = 256, b"\x7fELF"


class FoundProgram(NamedTuple):
    """A program that is there.  `is_script`: another one runs it, or it cannot be read."""

    path: str
    is_script: bool

    def is_evident(self, seen: Mapping[str, str]) -> bool:
        """Check if it is sure to start in a cage: it lies in what is only read, and needs no other."""
        path = os.path.realpath(self.path)
        while path not in seen and len(path) > 1:
            path = os.path.dirname(path)
        return not self.is_script and seen.get(path) == READ


def find_program(program: str, env: Mapping[str, str], folder: str) -> FoundProgram:
    """Find the program of a command; raise what `Popen` would for one that is not there."""
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
    return FoundProgram(path, _is_script(program, path))


def _is_script(program: str, path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(_LONGEST_FIRST_LINE)
    except PermissionError:  # it may be run, and not read
        return True
    interpreter = start[2:].split(b"\n", 1)[0].split()[:1] if start.startswith(b"#!") else []
    if interpreter and not os.path.exists(interpreter[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if not interpreter and b"\0" not in start:  # a text, which a shell would take for its own
        raise OSError(errno.ENOEXEC, os.strerror(errno.ENOEXEC), program)
    return not start.startswith(_MACHINE_CODE)
