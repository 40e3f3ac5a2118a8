"""Folders in the user's cache: made whole or not at all, once, by the first that needs one; mended when damaged.

One of them is the REPL, written in Lean: its parts put together, and compiled once for a Lean, so that processes only
load it."""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pipeline.errors import RunLocked
from pipeline.lean import repl
from pipeline.lean.model import LeanStartError
from pipeline.store.files import sync_path
from pipeline.store.flock import file_lock

MANIFEST = "manifest.json"
# Seconds for the download of some hundred megabytes in another process.
PATIENCE = 1800.0


def cache_folder() -> Path:
    """$XDG_CACHE_HOME, ~/.cache, or, for users without a home folder, one of theirs among the temporary ones."""
    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):  # a container's user may be a number alone
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    places = [os.environ.get("XDG_CACHE_HOME", ""), *(os.path.join(home, ".cache") for home in homes if home)]
    places.append(os.path.join(tempfile.gettempdir(), f"coppice-{os.getuid()}"))
    for place in filter(os.path.isabs, places):
        with suppress(OSError):  # the next one is tried
            os.makedirs(place, mode=0o700, exist_ok=True)
            if os.access(place, os.W_OK | os.X_OK):
                return Path(place) / "coppice" / "lean"
    tried = ", ".join(filter(None, places))
    raise LeanStartError(f"nowhere to keep the Lean toolchain: none of {tried} can be written")


def cached_folder(
    name: str,
    make: Callable[[Path], None],
    sound: Callable[[Path], bool] = lambda folder: not damage_in(folder),
    patience: float = PATIENCE,
) -> Path:
    """The folder of that name in the cache; `make` fills it when it is not `sound`.

    `patience`: seconds to wait for another process that is just making it."""
    folder = cache_folder() / name
    if sound(folder):
        return folder
    try:
        with file_lock(f"{folder}.lock", patience):
            if not sound(folder):  # it may have been made while we waited
                _make(folder, make)
    except RunLocked as error:
        raise LeanStartError(str(error)) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = f"no room for the Lean toolchain in {folder.parent}: about 1 GB is needed while it is made"
            raise LeanStartError(why) from error
        raise LeanStartError(f"{folder} could not be made: {error}") from error
    return folder


def damage_in(folder: Path) -> str:
    """The damage of a folder, in a word; "" when all files that were put there have the sizes they had."""
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
        files = [path for path in sorted(new.rglob("*")) if path.is_file()]
        sizes = {str(path.relative_to(new)): path.stat().st_size for path in files}
        (new / MANIFEST).write_text(json.dumps(sizes))
        for path in [*files, new / MANIFEST]:  # what the manifest lists must be there after a power cut
            sync_path(str(path))
        if folder.exists():
            folder.rename(f"{new}.damaged")
        new.rename(folder)
    finally:
        for left in (new, Path(f"{new}.damaged")):
            shutil.rmtree(left, ignore_errors=True)


SOURCES = Path(repl.__file__).with_name("Coppice")
# In this order, for each uses those before it.
PARTS = ("Whole", "Plain", "Refuse", "Running", "Slots", "Trust", "Key", "Prove", "Serve")
MODULE = "Coppice"
HEADERS = ("module", "public meta import ")
COMPILE_TIMEOUT = 600.0


def repl_source() -> str:
    """The REPL as one module, which takes a fifth of the time that nine take."""
    lines = ((SOURCES / f"{name}.lean").read_text(encoding="utf-8").splitlines(keepends=True) for name in PARTS)
    bodies = ("".join(line for line in part if not line.startswith(HEADERS)) for part in lines)
    return "module\npublic meta import Lean\n" + "\n".join(bodies)


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
    try:
        done = subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, encoding="utf-8", timeout=COMPILE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeanStartError(f"the REPL could not be compiled: {error}") from error
    if done.returncode or not written.with_suffix(".olean").exists():
        printed = (done.stdout + done.stderr).splitlines()
        errors = [line for line in printed if "error" in line][:5] or printed[-5:]
        what = f"this Lean does not compile the REPL; it ended with {done.returncode}:"
        raise LeanStartError("\n".join([what, *errors]))
