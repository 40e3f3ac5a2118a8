"""The Lean of the machine: the `lean` on the PATH, or that of a lake project with the project's modules."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from pipeline.lean.model import LeanStartError
from pipeline.lean.repl.process import LeanCommand
from pipeline.lean.toolchain import cache
from pipeline.machine.process import set_variables

WRITTEN_FOR = "4.28"
INSTALL = "install elan (https://lean-lang.org/install), or take the backend wasm"
VARIABLES = ("PATH", "HOME", "ELAN_HOME", "LEAN_PATH")
PROJECT_FILES = ("lean-toolchain", "lake-manifest.json", "lakefile.toml")
_VERSION = re.compile(r"version ([^,)]+)")
_LIBRARY = re.compile(r"^\s*lean_lib\s+(?:«([^»]+)»|([\w.]+))", re.MULTILINE)
_PLAIN = re.compile(r"[^\W\d][\w.]*")


def native_command(repl: Path, project: str) -> LeanCommand:
    """Command of a process of `repl`, which is compiled for this Lean once, and kept."""
    name = f"Lean {lean_version(project)} of the PATH (the REPL is written for {WRITTEN_FOR})"
    env = set_variables(VARIABLES)
    try:
        # the binary itself, not elan's stand-in for it, which goes by the current folder
        binary = os.path.join(_lean_prints("--print-prefix", project), "bin", "lean")
        there, lean = str(repl.parent.resolve()), f"native {_lean_prints('--version', project)}"
        compiled = cache.compiled_repl((binary,), env, there, lean)
    except LeanStartError as error:
        raise LeanStartError(f"{name}: {error}") from error
    env["LEAN_PATH"] = ":".join([str(compiled), *filter(None, [env.get("LEAN_PATH")])])
    if not project:
        return LeanCommand((_tool("lean"), str(repl.resolve())), env, str(compiled), name)
    text = with_imports(repl.read_text(), library_roots(Path(project)))
    placed = cache.cache_folder() / f"repl-{sha256(text.encode()).hexdigest()[:16]}.lean"
    if not placed.exists():
        placed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=placed.parent, delete=False, encoding="utf-8") as new:
            new.write(text)
        os.replace(new.name, placed)  # whole at any time
    return LeanCommand((_tool("lake"), "env", "lean", str(placed)), env, os.path.abspath(project), name)


def native_version(project: str) -> str:
    """Version that changes with whatever may change an answer: the Lean, the REPL, the project's sources."""
    found = [lean_version(project), "native", "repl", cache.repl_fingerprint()]
    return " ".join([*found, "project", _sources_digest(Path(project))] if project else found)


def lean_version(project: str) -> str:
    said = _lean_prints("--version", project)
    found = _VERSION.search(said)
    return found[1].strip() if found else said


def _lean_prints(option: str, project: str) -> str:
    """Output of `lean OPTION`, in the project's folder, where elan takes the toolchain that it asks for."""
    asked = subprocess.run([_tool("lean"), option], cwd=project or None, capture_output=True, text=True, check=False)
    if asked.returncode or not asked.stdout.strip():
        raise LeanStartError(f"`lean {option}` failed: {(asked.stderr or asked.stdout).strip()[-500:]}; {INSTALL}")
    return asked.stdout.strip()


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LeanStartError(f"there is no `{name}` on the PATH: {INSTALL}")
    return os.path.abspath(found)


def library_roots(project: Path) -> list[str]:
    """The modules at the roots of the libraries that the project's lakefile names."""
    toml, lean = project / "lakefile.toml", project / "lakefile.lean"
    if toml.exists():
        listed = tomllib.loads(toml.read_text()).get("lean_lib", [])
        return [root for each in listed for root in each.get("roots", [each["name"]])]
    if lean.exists():
        return [quoted or plain for quoted, plain in _LIBRARY.findall(lean.read_text())]
    raise LeanStartError(f"{project} has neither lakefile.toml nor lakefile.lean: it is no lake project")


def with_imports(repl: str, modules: Iterable[str]) -> str:
    """The REPL with these imports after its own: a module before `Lean` would be trusted like a part of it."""
    head, serve, _ = repl.partition("#serve")
    return "".join([head, *(f"import {_quoted_module(name)}\n" for name in modules), serve, "\n"])


def imported(project: str) -> list[str]:
    """Modules that a file has to import to know what a process of ours knows."""
    return ["Lean", *map(_quoted_module, library_roots(Path(project)) if project else ())]


def _quoted_module(module: str) -> str:
    return module if _PLAIN.fullmatch(module) else f"«{module}»"


def _sources_digest(project: Path) -> str:
    def fail(error: OSError) -> NoReturn:
        raise error

    digest, sources = sha256(), list[Path]()
    try:
        for folder, below, names in os.walk(project, onerror=fail):
            below[:] = [name for name in below if not name.startswith(".")]
            sources += [Path(folder, name) for name in names if name.endswith(".lean") or name in PROJECT_FILES]
        for path in sorted(sources):
            digest.update(f"{path.relative_to(project)}\0{sha256(path.read_bytes()).hexdigest()}\0".encode())
    except OSError as error:
        raise LeanStartError(f"the sources of {project} cannot be read: {error}") from error
    return digest.hexdigest()[:16]
