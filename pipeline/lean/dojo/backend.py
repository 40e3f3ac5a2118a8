"""The backend leandojo: theorems proved by the package lean_dojo in a repository with a Lean of its own.

LeanDojo traces a repository before it opens a theorem of it.  A statement of a bank stands in no file, and needs no
trace: it is proved in a copy, which is built with LeanDojo's REPL, and put where LeanDojo looks for a traced
repository."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any, NamedTuple

from pipeline.lean.dojo import text as dojo_text
from pipeline.lean.dojo.process import CompletedCommand, DojoProcess, DojoSession, run_to_end
from pipeline.lean.dojo.text import REPL_MODULE, WholeProofFile, preamble_refusal, statement_refusal, tactic_refusal
from pipeline.lean.model import (
    Begun,
    LeanError,
    LeanKilled,
    LeanStartError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    Stop,
    TacticState,
    Theorem,
    unheard,
)
from pipeline.lean.repl.process import POLL_PERIOD, Overrun, ProcessEnded, Starter, check_stop
from pipeline.lean.toolchain import cache
from pipeline.machine.failures import FROM_OUTSIDE, signal_of
from pipeline.machine.process import Exit, install_command
from pipeline.tactics.script import as_block

START = 600.0  # seconds until the first goal is there: a large library is read before
TRACE = 24 * 3600.0  # the same, where LeanDojo may have to trace the repository
CHECK = 600.0  # for a whole proof
# LeanDojo asks no server on the network, even if a file `.env` above it says so.
OFFLINE = {"DISABLE_REMOTE_CACHE": "1", "GITHUB_ACCESS_TOKEN": ""}
FILE = "Goal.lean"
LEAN = ("lake", "env", "lean", "--json")
UNFINISHED = {
    TacticState: LeanError("goals are left", "tactic"),
    ProofGivenUp: LeanError("the proof was given up", "sorry"),
}

PACKAGE, EXTRA = "lean_dojo", "leandojo"
PYTHONS = "with Python 3.11 or 3.12: for 3.13 there is none"
BUILD = 6 * 3600.0  # seconds that `lake build` may take
BUILT_MARK, CACHE = "built", "cache"
# Of both Lake takes the first.  What makes LeanDojo's REPL a part of the project:
LAKEFILES = {
    "lakefile.lean": f"\nlean_lib {REPL_MODULE} {{\n\n}}\n",
    "lakefile.toml": f'\n[[lean_lib]]\nname = "{REPL_MODULE}"\n',
}
_TOOLCHAIN = re.compile(r"leanprover/lean4:\S+")


class LeanDojoBackend:
    """Backend with up to `size` Dojos at once; a further `open` waits. None starts before something is asked."""

    def __init__(self, project: DojoProject, starter: Starter, env: Mapping[str, str], size: int) -> None:
        self.version = project.version
        self._project, self._starter = project, starter
        self._env = {**env, **OFFLINE}
        self._room = Semaphore(size)
        self._lock = Lock()
        self._copied: Path | None = None

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[DojoSession, TacticState]:
        return self._begin(theorem, _theorem_name(theorem), stop)

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """Check in a Dojo, where all of the script has to be one tactic and no more, and then as a file by itself."""
        if why := tactic_refusal("\n".join(script)):
            return LeanError(why, "refused")
        # what Lean's parser takes as one tactic does not leave its theorem
        name, proof = _theorem_name(theorem), as_block(script)
        try:
            session, state = self._begin(theorem, name, stop)
        except NotElaborated as error:
            return LeanError(str(error), "elab")
        try:
            begun()
            answer = session.run_tac(state, proof, CHECK)
            if not isinstance(answer, ProofFinished):
                return answer if isinstance(answer, LeanError) else UNFINISHED[type(answer)]
            file = Path(session.file)
            before = dojo_text.text_before_proof(file.read_text(encoding="utf-8"))
            # a theorem of a repository may stand within namespaces of its file
            whole = dojo_text.file_with_proof(before, proof, f"_root_.{name}" if theorem.file else name)
            root = file.parents[len(Path(theorem.file or FILE).parts) - 1]
            return self._check_file(root, file.parent, whole, stop)
        finally:
            session.close()

    def close(self) -> None:
        """End nothing: sessions end their own Dojos."""

    def _begin(self, theorem: Theorem, name: str, stop: Stop | None) -> tuple[DojoSession, TacticState]:
        if not theorem.file:  # its text is put into a file, and may do nothing there but be stated
            for why in (statement_refusal(theorem.statement), *map(preamble_refusal, theorem.before)):
                if why:
                    raise NotElaborated(why)
        while not self._room.acquire(timeout=POLL_PERIOD):
            check_stop(stop)
        session = DojoSession(theorem, lambda: self._open_dojo(theorem, name, stop), self._room.release, stop)
        try:
            return session, session.begin()
        except BaseException:
            session.close()
            raise

    def _open_dojo(self, theorem: Theorem, name: str, stop: Stop | None) -> tuple[DojoProcess, dict[str, Any]]:
        if shutil.which("lake", path=self._env.get("PATH")) is None:
            raise LeanStartError("LeanDojo needs `lake`, which is not on the PATH; install a Lean, as by elan")
        cache = {} if theorem.file else {"CACHE_DIR": str(self._copy())}
        text = "" if theorem.file else dojo_text.file_with_gap(theorem, name)
        where = {"repo": self._project.folder, "commit": self._project.commit, "file": theorem.file or FILE}
        dojo = DojoProcess(self._starter, {**self._env, **cache}, self._project.folder)
        try:
            request = {**where, "name": name, "text": text, "timeout": START}
            answer = dojo.ask(request, TRACE if theorem.file else START, stop)
        except BaseException as error:
            dojo.end()
            if isinstance(error, (Overrun, ProcessEnded)):
                why = "it takes too long" if isinstance(error, Overrun) else error
                raise LeanStartError(f"LeanDojo does not start: {why}") from error
            raise
        if "lost" in answer:
            dojo.end()
            raise self._open_error(theorem, answer["error"], stop)
        dojo.file = answer["file"]
        return dojo, answer

    def _copy(self) -> Path:
        with self._lock:  # one makes it, the others want it too
            if self._copied is None:
                self._copied = cached_copy(self._project, self._starter, self._env)
            return self._copied

    def _open_error(self, theorem: Theorem, error: str, stop: Stop | None) -> LeanStartError:
        """The error of Lean about the statement, if any: LeanDojo tells no more than that Lean ended."""
        if theorem.file:
            return LeanStartError(f"{theorem.file}: {theorem.name}: LeanDojo does not open it: {error}")
        text = f"{dojo_text.statement_head(theorem, _theorem_name(theorem))}by\n  sorry\n"
        root = self._project.place_in(self._copy())
        done = self._run_lean(root, root, text, stop)
        wrong = dojo_text.first_error(dojo_text.parse_messages(done.stdout)) if done else ""
        return NotElaborated(wrong) if wrong else LeanStartError(f"LeanDojo does not start: {error}")

    def _check_file(self, root: Path, folder: Path, file: WholeProofFile, stop: Stop | None) -> LeanError | None:
        done = self._run_lean(root, folder, file.text, stop)
        if done is None:
            return LeanError(f"not done after {CHECK:g} seconds; the process was killed", "timeout")
        if (number := signal_of(Exit(done.returncode))) in FROM_OUTSIDE:
            raise LeanKilled(f"Lean was killed by signal {number} from outside; is there memory enough?")
        return dojo_text.check_verdict(file, done.returncode, dojo_text.parse_messages(done.stdout))

    def _run_lean(self, root: Path, folder: Path, text: str, stop: Stop | None) -> CompletedCommand | None:
        """Run Lean on a text, in a file that is for a moment in a folder of the project.  None: it takes too long."""
        with tempfile.NamedTemporaryFile("w", suffix=".lean", prefix="Checked", dir=folder, encoding="utf-8") as file:
            file.write(text)
            file.flush()
            argv = [*LEAN, os.path.relpath(file.name, root)]
            try:
                return run_to_end(self._starter, argv, self._env, str(root), CHECK, stop)
            except Overrun:
                return None


def _theorem_name(theorem: Theorem) -> str:
    """Name of the theorem; of a statement one that nothing written before can know."""
    return theorem.name if theorem.file else f"goal_{secrets.token_hex(8)}"


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
        raise LeanStartError(f"the backend leandojo needs the package lean-dojo: {install_command(EXTRA)}, {PYTHONS}")
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
