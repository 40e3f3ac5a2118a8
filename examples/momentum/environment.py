"""The Python environment that the strategy runs in: made once, and anew when its definition changes.

Usage: python3 environment.py FOLDER RECORD          make it, and write down what is in it
       python3 environment.py FOLDER -- ARGUMENT…    make it, and run its Python with these arguments

RECORD has versions and no paths, so it is the same on every machine with the same Python. What FOLDER has can always be
made again from it; a stamp, written last, says that it is whole.
"""

# every command of the search starts here: what only makes an environment is imported where one is made
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REQUIREMENT = "numpy==2.4.6"  # the figures in numbers.md were measured with it
STAMP = "made-from"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time; the operating system drops the lock with its process, however that ends."""
    import fcntl

    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def record() -> str:
    name, version = REQUIREMENT.split("==")
    return json.dumps({"python": platform.python_version(), "packages": {name: version}}) + "\n"


def definition() -> str:
    """An environment made by another Python, even one of the same version, cannot be used."""
    return f"{sys.base_prefix}\n{record()}"


def install(folder: Path) -> None:
    """With the pip of this Python: the environment needs none of its own."""
    import subprocess
    from importlib.util import find_spec

    if find_spec("pip") is None:
        sys.exit(f"{sys.executable} has no pip; put a Python that has one first on PATH (scripts/run does)")
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "--quiet", "--disable-pip-version-check"]
    # only a wheel will do, since anything else would be compiled for minutes
    what = ["install", "--no-deps", "--only-binary=:all:", REQUIREMENT]  # compiled now: nobody may write to it later
    if subprocess.run(pip + what, env=os.environ | {"PIP_USER": "0"}, check=False).returncode:
        sys.exit(f"pip could not install {REQUIREMENT} (its message is above)")


def whole(folder: Path) -> bool:
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text() == definition()


def create(folder: Path) -> None:
    import venv

    if folder.exists() and any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists():
        sys.exit(f"{folder} has something else in it; an environment would replace that")
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(folder)


def environment(folder: Path) -> Path:
    """Its Python."""
    if not whole(folder):
        with alone(folder):
            if not whole(folder):  # another process may have made it meanwhile
                create(folder)
                install(folder)
                (folder / STAMP).write_text(definition())
    return folder / "bin" / "python"


def main(folder: str, what: str, *arguments: str) -> None:
    python = environment(Path(folder).resolve())
    if what == "--":
        os.execv(python, [str(python), *arguments])
    Path(what).write_text(record())


if __name__ == "__main__":
    main(*sys.argv[1:])
