"""The backend native, on a `lean` of the PATH that is a script: the Lean behind it is the one from npm."""

import os
import shlex
import subprocess
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from kit.leaning import REPL

from pipeline.lean.model import LeanError, LeanStartError, ProofFinished, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.lean.toolchain import native
from pipeline.lean.toolchain.wasm import Toolchain, ready_toolchain
from pipeline.machine.process import Processes

# Compiling the REPL takes this Lean a while, and is done already.
LEAN = """#!/bin/sh
case $1 in
--version) echo "Lean (version {version}, wasm32, commit 0123, Release)" ;;
--print-prefix) dirname "$(dirname "$0")" ;;
--root=*) cp {compiled}/Coppice.* "${{1#--root=}}" ;;
*) LEAN_PATH=$LEAN_PATH:{path} exec {argv} "$@" ;;
esac
"""
# What `lake env` does: it runs a command so that the project's modules are found.
LAKE = """#!/bin/sh
test "$1" = env && shift && LEAN_PATH=$LEAN_PATH:$PWD exec "$@"
"""
LAKEFILE = '[[lean_lib]]\nname = "Sums"\n\n[[lean_lib]]\nname = "More"\nroots = []\n'
# This Lean reads what a module exports, which of a theorem is not the proof.
SUMS = "module\n@[expose] public def Sums.two : Nat := 2\npublic axiom Sums.no : 1 = 2\n"
SUMS += "public theorem Sums.told : 1 = 2 := sorry\n"


@cache
def wasm() -> Toolchain:
    """Kept with the user's files, which the tests leave alone: asked for before those are elsewhere."""
    return ready_toolchain()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `lean` and `lake`, the only one on the PATH but for the system's."""
    wasm()
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def put(path: Path, name: str, text: str) -> None:
    (path / name).write_text(text)
    (path / name).chmod(0o755)


def lean(path: Path) -> None:
    kept = {"path": wasm().folder / "lib", "compiled": wasm().compiled}
    quoted = {name: shlex.quote(str(folder)) for name, folder in kept.items()}
    put(path, "lean", LEAN.format(version="4.28.0-pre", argv=shlex.join(wasm().lean), **quoted))
    put(path, "lake", LAKE)


@pytest.fixture
def sums(path: Path, tmp_path: Path) -> Path:
    """A lake project that is built."""
    lean(path)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "lakefile.toml").write_text(LAKEFILE)
    (folder / "Sums.lean").write_text(SUMS)
    subprocess.run(["lean", "Sums.lean", "-o", "Sums.olean"], cwd=folder, capture_output=True, check=True)
    return folder


def test_the_modules_of_a_project_are_there_and_their_axioms_are_seen(sums: Path, processes: Processes) -> None:
    with closing(Pool(native.native_command(REPL, str(sums)), processes)) as pool:
        session, start = pool.open(Theorem("a", "1 + 1 = Sums.two"))
        assert isinstance(session.run_tac(start, "rfl", 60), ProofFinished)
        session, start = pool.open(Theorem("a", "1 = 2"))
        for false in ("Sums.no", "Sums.told"):
            answer = session.run_tac(start, f"exact {false}", 60)
            assert isinstance(answer, LeanError)
            assert answer.kind == "axioms"


def test_without_a_project_it_is_the_core_library(path: Path) -> None:
    lean(path)
    found = native.native_command(REPL, "")
    assert found.argv == (str(path / "lean"), str(REPL))
    assert native.native_version("").startswith("4.28.0-pre native repl ")


def test_the_version_changes_with_the_sources_of_the_project(path: Path, tmp_path: Path) -> None:
    lean(path)
    folder = tmp_path / "project"
    (folder / ".lake").mkdir(parents=True)
    seen = []
    for name in ("lakefile.toml", "A.lean", ".lake/B.lean", "notes.txt", "lake-manifest.json"):
        (folder / name).write_text("x")
        seen.append(native.native_version(str(folder)))
    assert seen[0] != seen[1] == seen[2] == seen[3] != seen[4]


def test_sources_that_cannot_be_read_are_no_version(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose name from the root is too long can be made, but not be listed by that name."""
    lean(path)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for _ in range(20):
        os.mkdir("x" * 250)
        os.chdir("x" * 250)
    Path("A.lean").touch()
    with pytest.raises(LeanStartError, match=r"the sources of .*project cannot be read: .*File name too long"):
        native.native_version(str(tmp_path / "project"))


def test_a_project_names_its_libraries_in_either_lakefile(tmp_path: Path) -> None:
    (tmp_path / "lakefile.lean").write_text(
        "import Lake\nlean_lib «Sums» where\n  x := 1\n@[default_target]\nlean_lib B\nlean_lib «my-own»\n"
    )
    assert native.library_roots(tmp_path) == ["Sums", "B", "my-own"]
    assert "\nimport B\nimport «my-own»\n#serve" in native.with_imports(REPL.read_text(), ["B", "my-own"])
    (tmp_path / "lakefile.toml").write_text(LAKEFILE)
    assert native.library_roots(tmp_path) == ["Sums"]


def test_what_is_missing_is_said_with_what_to_install(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LeanStartError, match=r"no `lean` on the PATH: install elan .* or take the backend wasm"):
        native.native_command(REPL, "")
    put(path, "lean", "#!/bin/sh\necho error: no default toolchain configured >&2; exit 1\n")
    with pytest.raises(LeanStartError, match="no default toolchain configured"):
        native.native_command(REPL, "")
    lean(path)
    with pytest.raises(LeanStartError, match="it is no lake project"):
        native.native_command(REPL, str(tmp_path))


def test_a_lean_that_does_not_compile_the_repl_says_why_itself(path: Path) -> None:
    old = 'case $1 in --version) echo "Lean (version 4.9.0, x86)" ;; --print-prefix) cd "$(dirname "$0")/.." && pwd ;;'
    for last in ("error: 1:0: unexpected identifier", "out of memory"):
        put(path, "lean", f"#!/bin/sh\n{old} *) echo {last}; exit 7 ;; esac\n")
        wanted = rf"Lean 4.9.0 of the PATH \(the REPL is written for 4.28\): .* ended with 7:\n{last}"
        with pytest.raises(LeanStartError, match=wanted):
            native.native_command(REPL, "")
