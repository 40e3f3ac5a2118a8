"""A project in a temporary folder, used through the real command line."""

import gc
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import psutil

from pipeline.commands.main import main

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0  # seconds after which a test that waits has failed: nothing takes that long, however busy the machine


class Said(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def call_in(folder: Path, *words: str) -> Said:
    """`coppice` in a folder, within this process."""
    with chdir(folder), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(list(words))
    gc.enable()  # `main` turns it off, since its process is about to end
    return Said(code, out.getvalue(), err.getvalue())


class Project:
    """Files, specs, and the `coppice` command run there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "specs").mkdir(parents=True, exist_ok=True)

    def copy(self, root: Path) -> "Project":
        """A project with the same files and results, in a folder that is not there yet."""
        subprocess.run(["cp", "-a", str(self.root), str(root)], check=True)
        return Project(root)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def spec(self, name: str, yaml: str) -> Path:
        return self.write(f"specs/{name}.yaml", yaml)

    def coppice(self, *words: str, timeout: float = PATIENCE, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COPPICE, *words],
            cwd=self.root,
            env=environment(env),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def call(self, *words: str) -> Said:
        """The same within this process, where a process of its own is not the point."""
        return call_in(self.root, *words)

    def popen(self, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COPPICE, *words], cwd=self.root, env=environment(env), stdout=-1, stderr=-1, text=True
        )


COPPICE = (sys.executable, "-m", "pipeline")


def environment(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def leans(project: Project, run: str = "x") -> list[psutil.Process]:
    """Processes that belong to the run: the guard looks for the same mark."""
    mark = str((project.root / "runs" / run).resolve())
    return [process for process in psutil.process_iter() if mark == _environ(process).get("COPPICE_FOLDER")]


def _environ(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
