"""Make the checkout's .venv, or bring it up to date: one process at a time, silent when nothing is to be done.

A stamp in .venv for each part installed says from what. It is written last and removed first, so that an
installation that was killed is seen: without the stamp of the base, .venv is made anew. Otherwise it is changed
in place, so that programs that run from it keep their files.
"""

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# an editable install copies bin/coppice
DEFINITION = ("pyproject.toml", "constraints.txt", "bin/coppice")
BASE = "base"


def say(message: str) -> None:
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr, flush=True)


@contextmanager
def alone() -> Iterator[None]:
    """The operating system drops the lock with its process, however that ends."""
    with (ROOT / ".venv.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is working on .venv; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def interpreter() -> str:
    """A .venv made by another Python, or moved with its checkout, cannot be used."""
    return f"{platform.python_version()} {sys.base_prefix} {ROOT}\n"


def definition() -> str:
    parts = ((ROOT / name).read_bytes() for name in DEFINITION)
    return interpreter() + hashlib.sha256(b"\0".join(parts)).hexdigest()


def stamp(part: str) -> Path:
    return VENV / f".installed-{part}"


def stamped(part: str) -> str:
    return stamp(part).read_text() if stamp(part).exists() else ""


def usable() -> bool:
    return stamped(BASE).startswith(interpreter()) and PYTHON.exists()


def run(command: list[str | Path], failure: str) -> None:
    # a machine whose pip is set to install for the user cannot do so in a virtual environment
    environment = os.environ | {"PIP_USER": "0"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit(f"{failure} (its message is above)")


def create() -> None:
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        cure = "on Debian and Ubuntu: apt install python3-venv"
        sys.exit(f"{sys.executable} cannot make virtual environments; {cure}")
    say(f"making .venv with Python {platform.python_version()}")
    run([sys.executable, "-I", "-m", "venv", "--clear", VENV], f"{sys.executable} could not make .venv")


def requirements_of(part: str) -> list[str]:
    """An extra is installed by its requirements: naming the project again would install it again."""
    if part == BASE:
        return ["--editable", "."]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if part not in extras:
        sys.exit(f"{part}: pyproject.toml has no such extra; use {', '.join(sorted(extras))}")
    return list(extras[part])


def install(parts: list[str], wanted: str) -> None:
    """All at once: pip resolves, and starts, but once."""
    requirements = [each for part in parts for each in requirements_of(part)]
    say(f"installing {' '.join(requirements)}")
    for part in parts:
        stamp(part).unlink(missing_ok=True)
    pip: list[str | Path] = [PYTHON, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip.append("--no-compile")  # a third of the time; what is used is compiled when it is first imported
    run([*pip, "-c", "constraints.txt", *requirements], "pip could not install them")
    for part in parts:
        stamp(part).write_text(wanted)


def bring_up_to_date(extras: list[str]) -> None:
    wanted = definition()
    started = time.monotonic()
    if not usable():
        create()
    stale = [part for part in [BASE, *extras] if stamped(part) != wanted]
    if stale:
        install(stale, wanted)
        say(f".venv is ready ({time.monotonic() - started:.0f} s)")


def main(extras: list[str]) -> None:
    try:
        with alone():
            bring_up_to_date(extras)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
