"""Every tool that is measured: its files, the command that builds, the command that only loads the graph."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shape import AS_COMMAND, IN_PROCESS

FILES = Path(__file__).with_name("peer_files")
HERE = Path(sys.executable).parent


class Missing(Exception):
    """A tool that cannot be measured here, and why."""


@dataclass(frozen=True)
class Setting:
    """Where tools are that do not come with this environment."""

    coppice: Path
    venvs: Path


@dataclass(frozen=True)
class Tool:
    """One row of the table. Commands have {exe}, {python} and {jobs}."""

    executable: str
    build: str
    graph: str
    files: Mapping[str, str]
    generate: str = ""
    """Writes the tool's own input, `generated`; it is measured in `graph` and in nothing else."""
    generated: str = ""
    counted: str = ""
    """A pattern in what `graph` prints: its group is the number of targets, or it matches once for each."""
    caches: tuple[str, ...] = ()
    """Removed before `graph`, so that the graph is made from the YAML."""
    parallel: str = " -j{jobs}"
    jobs_by_default: int = 0
    makes_folders: bool = False
    in_process: bool = False
    most_targets: int = 1_000_000
    packages: tuple[str, ...] = ()
    """What to install in an environment of its own: for tools that would not be stock in this one."""

    @property
    def spec_action(self) -> str:
        return IN_PROCESS if self.in_process else AS_COMMAND

    def build_command(self, exe: Path, jobs: int) -> list[str]:
        parallel = "" if jobs == self.jobs_by_default else self.parallel
        return shlex.split(_filled(self.build + parallel, exe, jobs))

    def graph_command(self, exe: Path, jobs: int) -> list[str]:
        load = _filled(self.graph, exe, jobs)
        if not self.generate:
            return shlex.split(load)
        return ["/bin/sh", "-c", f"{_filled(self.generate, exe, jobs)} && {load}"]

    def generate_command(self, exe: Path) -> list[str]:
        return shlex.split(_filled(self.generate, exe, 1))

    def count(self, printed: str) -> int:
        """How many targets the graph command said it has."""
        found = re.findall(self.counted, printed, re.MULTILINE)
        return int(found[-1]) if re.compile(self.counted).groups and found else len(found)


def _filled(command: str, exe: Path, jobs: int) -> str:
    return command.format(exe=shlex.quote(str(exe)), python=shlex.quote(sys.executable), jobs=jobs)


def _coppice(executable: str, in_process: bool) -> Tool:
    return Tool(
        executable,
        build="{exe} run",
        graph="{exe} plan --graph-only",
        files={"dodo.py": "coppice_dodo.py", "action.py": "action.py"},
        counted=r"\b(\d+) targets",
        caches=("runs/bench/.coppice/graph",),
        parallel=" -n {jobs}",
        makes_folders=True,
        in_process=in_process,
    )


PEER_SPEC = {"expand.py": "expand.py"}
TOOLS: dict[str, Tool] = {
    "ninja": Tool(
        "ninja",
        generate="{python} to_ninja.py",
        generated="build.ninja",
        build="{exe} --quiet",
        graph="{exe} -t targets all",
        counted=r": digest$",
        files=PEER_SPEC | {"to_ninja.py": "to_ninja.py"},
    ),
    "make": Tool(
        "make",
        generate="{python} to_make.py",
        generated="Makefile",
        build="{exe} -s",
        graph="{exe} -s nothing",
        counted=r"^(\d+) targets",
        files=PEER_SPEC | {"to_make.py": "to_make.py"},
    ),
    "doit": Tool(
        "doit",
        build="{exe} run",
        graph="{exe} run nothing",
        files=PEER_SPEC | {"dodo.py": "dodo.py", "action.py": "action.py"},
        parallel=" -n {jobs}",
        jobs_by_default=1,
        in_process=True,
        packages=("doit==0.37.0", "pyyaml"),
    ),
    "snakemake": Tool(
        "snakemake",
        build="{exe} --quiet all --nolock",
        graph="{exe} --dry-run --quiet all --nolock --cores 1",
        files=PEER_SPEC | {"Snakefile": "Snakefile"},
        parallel=" --cores {jobs}",
        most_targets=1_000,
        packages=("snakemake",),
    ),
    "coppice": _coppice("coppice", in_process=True),
    "doit-coppice": _coppice("doit", in_process=True),
    "coppice-run": _coppice("coppice", in_process=False),
}


def find(name: str, setting: Setting) -> Path:
    """The executable of a tool; raises `Missing` with what to do about it."""
    tool = TOOLS[name]
    if name == "doit-coppice":
        return _existing(setting.coppice.with_name(tool.executable))
    if name in ("coppice", "coppice-run"):
        return _existing(setting.coppice)
    if tool.packages:
        return _own_venv(setting.venvs / name, tool)
    beside, on_path = HERE / tool.executable, shutil.which(tool.executable)
    if not beside.exists() and on_path is None:
        raise Missing(f"{tool.executable} is neither next to {sys.executable} nor on the PATH")
    return beside if beside.exists() else Path(str(on_path))


def _existing(exe: Path) -> Path:
    if not exe.exists():
        raise Missing(f"{exe} does not exist; give the one to measure with --coppice")
    return exe.absolute()


def _own_venv(folder: Path, tool: Tool) -> Path:
    exe = folder / "bin" / tool.executable
    if not exe.exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *tool.packages]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"pip install {' '.join(tool.packages)}: {done.stderr.strip()[-300:]}")
    return exe


def version(exe: Path) -> str:
    """The first line of what `--version` prints."""
    done = subprocess.run([exe, "--version"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"unknown (--version exits with {done.returncode})"
    return done.stdout.strip().splitlines()[0]
