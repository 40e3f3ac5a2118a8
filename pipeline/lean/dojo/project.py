"""The repository that LeanDojo proves in, and the copy of it in which statements of a bank are proved.

LeanDojo traces a repository before it opens a theorem of it.  A statement of a bank stands in no file, and needs no
trace: the copy is built with LeanDojo's REPL, and put where LeanDojo looks for a traced repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pipeline.lean.dojo.process import run_to_end
from pipeline.lean.dojo.text import REPL_MODULE
from pipeline.lean.model import LeanStartError
from pipeline.lean.repl.process import Overrun, Starter
from pipeline.lean.toolchain import cache

PACKAGE = "lean_dojo"
INSTALL = "pip install 'coppice[leandojo]', with Python 3.11 or 3.12: for 3.13 there is none"
BUILD = 6 * 3600.0  # seconds that `lake build` may take
BUILT_MARK, CACHE = "built", "cache"
# Of both Lake takes the first.  What makes LeanDojo's REPL a part of the project:
LAKEFILES = {
    "lakefile.lean": f"\nlean_lib {REPL_MODULE} {{\n\n}}\n",
    "lakefile.toml": f'\n[[lean_lib]]\nname = "{REPL_MODULE}"\n',
}
_TOOLCHAIN = re.compile(r"leanprover/lean4:\S+")


class DojoProject(NamedTuple):
    """`folder` is absolute; `toolchain` as its file lean-toolchain has it."""

    folder: str
    commit: str
    toolchain: str

    @property
    def name(self) -> str:
        return os.path.basename(self.folder)

    @property
    def version(self) -> str:
        return f"{PACKAGE} {version(PACKAGE)} {self.toolchain} {self.name} {self.commit}"

    def place_in(self, cache: Path) -> Path:
        """The folder where LeanDojo looks for the project in one of its caches."""
        return cache / f"gitpython-{self.name}-{self.commit}" / self.name


def package_folder() -> Path:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise LeanStartError(f"the backend leandojo needs the package lean-dojo: {INSTALL}")
    return Path(found.submodule_search_locations[0])


def open_project(path: str) -> DojoProject:
    """Open the project, if LeanDojo can prove in it."""
    package_folder()
    folder = os.path.realpath(path)
    if not any(os.path.isfile(os.path.join(folder, each)) for each in LAKEFILES):
        raise LeanStartError(f"{path} has no {' or '.join(LAKEFILES)}; name the folder of a Lean project")
    if _git(path, "rev-parse", "--show-toplevel") != folder:
        raise LeanStartError(f"{path} is no git repository of its own; LeanDojo knows repositories by their commits")
    if _git(path, "status", "--porcelain", "--untracked-files=no"):
        raise LeanStartError(f"{path} has changes that are not committed; LeanDojo would not see them: commit them")
    commit, file = _git(path, "rev-parse", "HEAD"), Path(folder, "lean-toolchain")
    toolchain = file.read_text().strip() if file.is_file() else "no such file"
    if not _TOOLCHAIN.fullmatch(toolchain):
        raise LeanStartError(f"{file}: LeanDojo wants leanprover/lean4:VERSION there, found: {toolchain[:80]}")
    return DojoProject(folder, commit, toolchain)


def _git(folder: str, *what: str) -> str:
    try:
        done = subprocess.run(["git", "-C", folder, *what], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LeanStartError("LeanDojo needs git, which is not on the PATH") from None
    if done.returncode:
        raise LeanStartError(f"{folder} is no git repository with a commit: {done.stderr.strip()}")
    return done.stdout.strip()


def cached_copy(found: DojoProject, starter: Starter, env: Mapping[str, str]) -> Path:
    """The cache of LeanDojo that has the copy of this commit, made if there is none; its first build may take long."""
    key = sha256(f"{found.folder}\0{found.version}".encode()).hexdigest()[:16]
    folder = cache.cached_folder(
        f"leandojo-{key}", lambda new: _make(found, new, starter, env), lambda old: (old / BUILT_MARK).is_file()
    )
    return folder / CACHE


def _make(found: DojoProject, new: Path, starter: Starter, env: Mapping[str, str]) -> None:
    copy = found.place_in(new / CACHE)
    # the one beside is what LeanDojo asks for the toolchain; it would copy the repository with all that is built
    for place in (copy, found.place_in(new / CACHE / "repos")):
        place.parent.mkdir(parents=True)
        _run(starter, ["git", "clone", "--quiet", found.folder, str(place)], env, str(new))
    built = Path(found.folder, ".lake")
    if built.is_dir():
        shutil.copytree(built, copy / ".lake", symlinks=True)
    # LeanDojo's REPL becomes a part of the project, as LeanDojo does it to what it traces
    shutil.copyfile(package_folder() / "interaction" / f"{REPL_MODULE}.lean", copy / f"{REPL_MODULE}.lean")
    name, text = next(each for each in LAKEFILES.items() if (copy / each[0]).is_file())
    with (copy / name).open("a", encoding="utf-8") as end:
        end.write(text)
    for what in (["lake", "build"], ["lake", "build", REPL_MODULE]):
        _run(starter, what, env, str(copy))
    (new / BUILT_MARK).touch()


def _run(starter: Starter, argv: list[str], env: Mapping[str, str], cwd: str) -> None:
    try:
        done = run_to_end(starter, argv, env, cwd, BUILD)
    except Overrun:
        raise LeanStartError(f"`{' '.join(argv)}` took longer than {BUILD / 3600:g} hours") from None
    if done.returncode:
        printed = (done.stderr or done.stdout).strip()[-2000:]
        raise LeanStartError(f"`{' '.join(argv)}` ended with {done.returncode}: {printed}")
