"""The REPL, written in Lean: its parts put together, and compiled once for a Lean, so that processes only load it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.edge.lean import kept
from pipeline.edge.lean.model import LeanStartError

FOLDER = Path(__file__).with_name("Coppice")
# In this order, for each uses those before it.
PARTS = ("Whole", "Plain", "Refuse", "Running", "Slots", "Trust", "Key", "Prove", "Serve")
MODULE = "Coppice"
HEADERS = ("module", "public meta import ")
TIMEOUT = 600.0


def source() -> str:
    """All of them as one module, which takes a fifth of the time that nine take."""
    bodies = (_body((FOLDER / f"{name}.lean").read_text(encoding="utf-8")) for name in PARTS)
    return "module\npublic meta import Lean\n" + "\n".join(bodies)


def _body(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(HEADERS))


def fingerprint() -> str:
    return sha256(source().encode()).hexdigest()[:8]


def compiled(argv: Sequence[str], env: Mapping[str, str], cwd: str, lean: str) -> Path:
    """The folder to be searched for the module; `argv` runs a Lean there, `lean` says which one it is."""
    key = sha256(f"{lean}\0{source()}".encode()).hexdigest()[:16]
    return kept.kept(f"repl-{key}", lambda new: _compile(argv, env, cwd, new))


def _compile(argv: Sequence[str], env: Mapping[str, str], cwd: str, new: Path) -> None:
    written = new / f"{MODULE}.lean"
    written.write_text(source(), encoding="utf-8")
    command = [*argv, f"--root={new}", "-o", str(new / f"{MODULE}.olean"), str(written)]
    how: dict[str, Any] = {"env": env, "cwd": cwd, "capture_output": True, "encoding": "utf-8", "timeout": TIMEOUT}
    try:
        done = subprocess.run(command, check=False, **how)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeanStartError(f"the REPL could not be compiled: {error}") from error
    if done.returncode or not written.with_suffix(".olean").exists():
        printed = (done.stdout + done.stderr).splitlines()
        said = [line for line in printed if "error" in line][:5] or printed[-5:]
        what = f"this Lean does not compile the REPL; it ended with {done.returncode}:"
        raise LeanStartError("\n".join([what, *said]))
