"""The command `doctor`: what this machine has for cages, screens and engines, tried and not looked up; cures for the
rest.

It needs no project.  A line is a row of CHECKS: a name, and a function that says what was found."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import version
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from pipeline.build.names import EXTRAS
from pipeline.commands.command import AnywhereCommand, opt_json, print_result
from pipeline.core.cages import AUTO, GRADES, TRUSTED
from pipeline.core.text import byte_text, join_names
from pipeline.engines.slurm import COMMANDS
from pipeline.machine import grades, kernel
from pipeline.machine.limits import describe_groups
from pipeline.machine.process import install_command
from pipeline.machine.usage import usable_cpus


class Finding(NamedTuple):
    """The result of a check.  `works`: None where there is nothing that could fail; `cure`: what would help."""

    works: bool | None
    what: str
    cure: str = ""

    @property
    def text(self) -> str:
        mark = {True: "yes", False: "no", None: ""}[self.works]
        return ": ".join(filter(None, [", ".join(filter(None, [mark, self.what])), self.cure]))


def check_system() -> Finding:
    return Finding(None, f"{platform.system()} {platform.release()}, {platform.machine()}")


def check_python() -> Finding:
    return Finding(None, f"{platform.python_version()}, {sys.executable}")


def check_git() -> Finding:
    program = shutil.which("git")
    if program is None:
        return Finding(False, "", "git is not installed; a search over code needs it: apt install git")
    said = _printed(program, "--version")
    if not said:
        return Finding(False, program, "it does not say its version, and so does not work: install git again")
    return Finding(True, f"{said.removeprefix('git version ')}, {program}")


def check_cpus() -> Finding:
    usable, there = usable_cpus(), os.cpu_count() or 1
    return Finding(None, f"{usable:g}" if usable == there else f"{usable:g} of {there}")


def check_disk() -> Finding:
    """Check that the disk of runs/ can be written to and keeps access times, by which a tripwire tells of a reader."""
    folder = "runs" if os.path.isdir("runs") else "."
    try:
        moves, free = _access_times_move(folder), shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(False, "", f"{os.path.abspath(folder)} cannot be written to: {error.strerror}")
    where = f"{folder} on {_file_system(folder)}, {byte_text(free)} free"
    if moves:
        return Finding(True, f"{where}, access times are kept")
    why = "its mount keeps no access times, so that under `plain` nothing tells who reads a sealed file"
    return Finding(False, where, f"{why}: mount it with relatime")


def _access_times_move(folder: str) -> bool:
    with TemporaryFile(dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.utime(file.fileno(), ns=(0, os.fstat(file.fileno()).st_mtime_ns))
        os.pread(file.fileno(), 1, 0)
        return os.fstat(file.fileno()).st_atime_ns > 0


def _file_system(folder: str) -> str:
    """The kind of file system that a folder lies on, as far as the system tells."""
    path = f"{os.path.realpath(folder).rstrip('/')}/"
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        mounts = [line.split()[1:3] for line in file]
        around = [(len(at), kind) for at, kind in mounts if path.startswith(f"{at.rstrip('/')}/")]
        return max(around, default=(0, "a disk"), key=lambda each: each[0])[1]
    return "a disk"


def check_bubblewrap() -> Finding:
    tried = grades.bubblewrap()
    if not tried.found:
        return Finding(False, "", tried.cure)
    version = _printed(tried.found, "--version").removeprefix("bubblewrap ")
    return Finding(True, ", ".join(filter(None, [version, tried.found, "makes namespaces"])))


def check_landlock() -> Finding:
    tried = grades.landlock()
    if not tried.found:
        return Finding(False, "", tried.cure)
    ruleset = kernel.open_ruleset({})
    try:
        holds = _is_refused(lambda: os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY)), ruleset=ruleset)
    finally:
        os.close(ruleset)
    return Finding(holds, tried.found, "" if holds else "the kernel has it, and lets everything pass")


def check_call_filter() -> Finding:
    program = kernel.filter_program(())
    if not program:
        there = f"{platform.system()} on {platform.machine()}"
        return Finding(False, "", f"there is none for {there}, only for Linux on x86_64 and aarch64")
    try:
        holds = _is_refused(lambda: socket.socket(socket.AF_UNIX).close(), program=program)
    except OSError as error:
        return Finding(False, "", f"the kernel takes none ({error.strerror}): it needs CONFIG_SECCOMP_FILTER")
    return Finding(holds, f"for {platform.machine()}", "" if holds else "the kernel takes it, and lets everything pass")


def _is_refused(do: Callable[[], object], ruleset: int | None = None, program: bytes = b"") -> bool:
    """Check if a thread that is limited so far may not do something."""

    def attempt() -> bool:
        try:
            do()
        except PermissionError:
            return True
        return False

    return kernel.run_limited(attempt, ruleset, program)


def check_user() -> Finding:
    if not kernel.is_root():
        return Finding(None, "an ordinary user")
    return Finding(None, "root, whose capabilities no cage has")


def check_groups() -> Finding:
    if found := describe_groups():
        return Finding(True, found)
    return Finding(
        False, "", "none that we may write to; memory and processes are watched instead, some times a second"
    )


def check_grade(grade: str) -> Finding:
    why = grades.missing_for(grade)
    where = "where a judge is apart: `answer:` and `judge:`" if grade == TRUSTED and not why else ""
    return Finding(not why, where, why)


def check_extra(extra: str, packages: Sequence[str]) -> Finding:
    """Check that what a screen needs beside the package can be imported."""
    try:
        versions = [f"{name} {(import_module(name), version(name))[1]}" for name in packages]
    except ImportError as error:
        return Finding(False, "", f"{error.name or error} is missing: {install_command(extra)}")
    return Finding(True, ", ".join(versions))


def check_slurm() -> Finding:
    missing = [name for name in COMMANDS if not shutil.which(name)]
    if missing:
        return Finding(False, "", f"{join_names(missing)} not on PATH; `engine: slurm` needs them")
    if not _printed("sinfo", "--noheader"):
        return Finding(False, _printed("sbatch", "--version"), "its controller does not answer: see `sinfo`")
    return Finding(True, _printed("sbatch", "--version"))


def check_auto() -> Finding:
    return Finding(None, grades.describe_auto(judged=False))


# The lines in their order; primitives first, then what is made of them.
CHECKS: Mapping[str, Callable[[], Finding]] = {
    "system": check_system,
    "Python": check_python,
    "git": check_git,
    "CPUs": check_cpus,
    "disk": check_disk,
    "user": check_user,
    "bubblewrap": check_bubblewrap,
    "Landlock": check_landlock,
    "call filter": check_call_filter,
    "control groups": check_groups,
    **{f"screen: {name}": partial(check_extra, name, packages) for name, packages in EXTRAS.items()},
    "engine: slurm": check_slurm,
    **{f"sandbox: {grade}": partial(check_grade, grade) for grade in GRADES},
    f"sandbox: {AUTO}": check_auto,
}


def _printed(*words: str) -> str:
    """The first line that a program prints; empty if it prints none, does not start or does not end."""
    try:
        ended = subprocess.run(words, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout.decode(errors="replace").partition("\n")[0].strip()


class DoctorCommand(AnywhereCommand):
    name = "doctor"
    doc_usage = ""
    doc_purpose = "say what this machine has for cages, screens and engines, and what would help"
    doc_description = (
        "Each line is tried, not looked up. The last ones are the grades of `sandbox:`, and the one that `auto` is"
        " here. Needs no project and changes nothing. Exit code 0 also where something is missing."
    )
    cmd_options = (opt_json,)
    takes = (0, 0, "it takes no names")

    def on_specs(self, params: Any, args: list[str]) -> int:
        found = {name: check() for name, check in CHECKS.items()}
        print_result({name: each._asdict() for name, each in found.items()}, [*_lines(found)], params["json"])
        return 0


def _lines(found: Mapping[str, Finding]) -> Iterator[str]:
    width = max(map(len, found))
    for name, each in found.items():
        yield f"{name:{width}}  {each.text}".rstrip()
