"""Sight of a command in a cage: what it may do with paths of the system, of its words, of the spec.

Of two paths of which one lies in the other, the deeper one counts: what is hidden in a visible folder stays hidden."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from pipeline.store.secret import key_path

if TYPE_CHECKING:
    from pipeline.machine.cage import Cage

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc"),
    *("/sys/devices/system/cpu", "/run/current-system"),
)
_KERNEL = ("/dev", "/proc", "/sys")  # a cage has its own
_PACKAGES = "node_modules"  # a package finds those that it needs in the folders of this name above it
# Folders of a prefix, where the prefix itself holds more than programs, as ~/.local does.
_OF_PREFIX = ("bin", "lib", "lib64", "libexec", "include")


@lru_cache(maxsize=8)
def _program_folders(path: str) -> tuple[str, ...]:
    """The system, our Python, and the installations of what is on a PATH."""
    found = dict.fromkeys(_SYSTEM)
    found |= dict.fromkeys(_installation(os.path.dirname(sys.executable)))
    found |= dict.fromkeys((sys.prefix, sys.base_prefix, os.path.realpath("/etc/resolv.conf")))
    for folder in filter(os.path.isabs, path.split(":")):
        found |= dict.fromkeys((*_installation(folder), *_linked_installations(folder)))
    return tuple(each for each in found if each and os.path.exists(each))


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
                    yield from _installation_behind(entry.path)


def _installation_behind(link: str) -> Iterator[str]:
    """The program behind a link, and where it is installed: of a package of npm, with all beside it."""
    real = os.path.realpath(link)
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


def _named_paths(words: Sequence[str], env: Mapping[str, str], own: Sequence[str]) -> Iterator[str]:
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
            if not _is_in(path, _KERNEL) and os.path.exists(path):
                yield from _python_behind(path)
                yield os.path.abspath(path).replace("//", "/", 1)  # two slashes at the beginning may stay two


def _split(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text)
    return []


@lru_cache(maxsize=1)
def _system_secrets() -> tuple[str, ...]:
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
    return tuple(path for path in found if os.access(path, os.R_OK) or os.access(path, os.X_OK))


def visible_path(path: str) -> str:
    """A path of `visible:` as a command sees it: `~/…` is in our HOME, others begin at the project."""
    return os.path.abspath(os.path.expanduser(path))


READ, WRITE, HIDE, OWN = "read", "write", "hide", "own"
_RANKS = (READ, HIDE, OWN, WRITE)  # of a path that is several of these, the last counts


def seen_paths(cage: Cage, words: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """Rights of a command to each path, the outer ones first: READ it, WRITE to it, not see it, have its OWN."""
    project, home, real = os.getcwd(), env.get("HOME", ""), cache(os.path.realpath)  # many are asked for again
    own = [each for path in cage.writable for each in (os.path.normpath(path), real(path))]
    search = [path for path in env.get("PATH", "").split(":") if not _is_own(path, own)]
    programs = (*_program_folders(":".join(search)), *_program_files(words[0], env, own))
    named = [*dict.fromkeys((*programs, *_named_paths(words, env, own)))]
    named = [path for path in named if not _is_broad(path, real) and not _is_in(path, own, real)]
    given = {real(path) for path in cage.visible}
    private = [path for path in (f"{project}/.git", f"{project}/.env") if real(path) not in given]
    # the key may be made after the first cage
    hidden = [*cage.hidden, *_system_secrets(), key_path(), f"{project}/runs", *private]
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


def _is_own(path: str, own: Sequence[str]) -> bool:
    """Check if a folder lies in what a command may write, where links are its own word."""
    return _is_in(path, own) or _is_in(os.path.normpath(path), own, str)


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
        if how == around != OWN or (how == HIDE and around in ("", OWN)):  # one's own in one's own has to be made
            continue
        kept[path] = how
    return kept


def _program_files(program: str, env: Mapping[str, str], own: Sequence[str]) -> Iterator[str]:
    """The program behind a name on the PATH, with its folder, and where it is installed."""
    path = shutil.which(program, path=env.get("PATH", ""))
    if path and os.path.realpath(path) != path and not _is_in(os.path.normpath(path), own, str):
        yield os.path.dirname(os.path.realpath(path))
        yield from _installation_behind(path)
