"""Folders in the user's cache: made whole or not at all, once, by the first that needs one; mended when damaged.

One of them is the REPL, written in Lean: its parts put together, and compiled once for a Lean, so that processes only
load it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.errors import RunLocked
from pipeline.lean import repl
from pipeline.lean.model import LeanStartError
from pipeline.store.flock import acquire_lock

MANIFEST = "manifest.json"
# Seconds for the download of some hundred megabytes in another process.
PATIENCE = 1800.0


def cache_folder() -> Path:
    """$XDG_CACHE_HOME, ~/.cache, or, for users without a home folder, one of theirs among the temporary ones."""
    places = [
        os.environ.get("XDG_CACHE_HOME", ""),
        _cache_below(os.environ.get("HOME", "")),
        _cache_below(_registered_home()),
    ]
    own = os.path.join(tempfile.gettempdir(), f"coppice-{os.getuid()}")
    for place in [*places, own]:
        if os.path.isabs(place) and _can_be_written(place):
            return Path(place) / "coppice" / "lean"
    raise LeanStartError(
        f"nowhere to keep the Lean toolchain: none of {', '.join(filter(None, places))}, {own} can be written"
    )


def _cache_below(home: str) -> str:
    return os.path.join(home, ".cache") if home else ""


def _registered_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user may be a number alone
        return ""


def _can_be_written(place: str) -> bool:
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK | os.X_OK)


def is_undamaged(folder: Path) -> bool:
    """True if all files that were put there are there, with the sizes they had."""
    return not damage_in(folder)


def cached_folder(
    name: str, make: Callable[[Path], None], sound: Callable[[Path], bool] = is_undamaged, patience: float = PATIENCE
) -> Path:
    """The folder of that name in the cache; `make` fills it when it is not `sound`.

    `patience`: seconds to wait for another process that is just making it."""
    folder = cache_folder() / name
    if sound(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, patience):
            if not sound(folder):  # it may have been made while we waited
                _make(folder, make)
    except RunLocked as error:
        raise LeanStartError(str(error)) from error
    except OSError as error:
        raise LeanStartError(_cache_error(error, folder)) from error
    return folder


def damage_in(folder: Path) -> str:
    """The damage of a folder, in a word; "" when there is none."""
    try:
        sizes: dict[str, int] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return f"no readable {MANIFEST}"
    for name, size in sizes.items():
        try:
            found = os.stat(folder / name).st_size
        except OSError:
            return f"{name} is missing"
        if found != size:
            return f"{name} has {found} bytes; {size} were written"
    return ""


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    for left in folder.parent.glob(f"{folder.name}.*"):  # of makers that were killed: no other is at work
        if left.is_dir():
            shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        make(new)
        _seal(new)
        if folder.exists():
            folder.rename(f"{new}.damaged")
        new.rename(folder)
    finally:
        for left in (new, Path(f"{new}.damaged")):
            shutil.rmtree(left, ignore_errors=True)


def _seal(folder: Path) -> None:
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    for name in sizes:  # what the manifest lists must be there after a power cut
        _to_disk(folder / name)
    (folder / MANIFEST).write_text(json.dumps(sizes))
    _to_disk(folder / MANIFEST)


def _to_disk(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())


@contextmanager
def _locked(folder: Path, patience: float) -> Iterator[None]:
    """Hold the lock of the folder, which the operating system drops with the process, however that ends."""
    with open(f"{folder}.lock", "a") as lock:
        acquire_lock(lock.fileno(), fcntl.LOCK_EX, lock.name, patience)
        yield


def _cache_error(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no room for the Lean toolchain in {folder.parent}: about 1 GB is needed while it is made"
    return f"{folder} could not be made: {error}"


SOURCES = Path(repl.__file__).with_name("Coppice")
# In this order, for each uses those before it.
PARTS = ("Whole", "Plain", "Refuse", "Running", "Slots", "Trust", "Key", "Prove", "Serve")
MODULE = "Coppice"
HEADERS = ("module", "public meta import ")
COMPILE_TIMEOUT = 600.0


def repl_source() -> str:
    """The REPL as one module, which takes a fifth of the time that nine take."""
    bodies = (_without_headers((SOURCES / f"{name}.lean").read_text(encoding="utf-8")) for name in PARTS)
    return "module\npublic meta import Lean\n" + "\n".join(bodies)


def _without_headers(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(HEADERS))


def repl_fingerprint() -> str:
    return sha256(repl_source().encode()).hexdigest()[:8]


def compiled_repl(argv: Sequence[str], env: Mapping[str, str], cwd: str, lean: str) -> Path:
    """The folder to be searched for the module; `argv` runs a Lean there, `lean` says which one it is."""
    key = sha256(f"{lean}\0{repl_source()}".encode()).hexdigest()[:16]
    return cached_folder(f"repl-{key}", lambda new: _compile(argv, env, cwd, new))


def _compile(argv: Sequence[str], env: Mapping[str, str], cwd: str, new: Path) -> None:
    written = new / f"{MODULE}.lean"
    written.write_text(repl_source(), encoding="utf-8")
    command = [*argv, f"--root={new}", "-o", str(new / f"{MODULE}.olean"), str(written)]
    how: dict[str, Any] = {
        "env": env,
        "cwd": cwd,
        "capture_output": True,
        "encoding": "utf-8",
        "timeout": COMPILE_TIMEOUT,
    }
    try:
        done = subprocess.run(command, check=False, **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeanStartError(f"the REPL could not be compiled: {error}") from error
    if done.returncode or not written.with_suffix(".olean").exists():
        printed = (done.stdout + done.stderr).splitlines()
        said = [line for line in printed if "error" in line][:5] or printed[-5:]
        what = f"this Lean does not compile the REPL; it ended with {done.returncode}:"
        raise LeanStartError("\n".join([what, *said]))
