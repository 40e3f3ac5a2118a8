"""The backend leandojo: theorems proved by the package lean_dojo in a repository with a Lean toolchain of its own."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any

from pipeline.edge.ended import FROM_OUTSIDE, signal_of
from pipeline.edge.lean import dojo_files, dojo_project, dojo_reading
from pipeline.edge.lean.dojo_files import Checked
from pipeline.edge.lean.dojo_process import DojoProcess, Ran, ran
from pipeline.edge.lean.dojo_project import Copy, Project
from pipeline.edge.lean.dojo_refusing import refused_before, refused_statement, refused_tactic
from pipeline.edge.lean.dojo_session import DojoSession
from pipeline.edge.lean.model import (
    Begun,
    LeanError,
    LeanKilled,
    LeanStartError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
    unheard,
)
from pipeline.edge.lean.process import Ended, Overrun, Starter
from pipeline.edge.lean.turns import LOOK, look
from pipeline.edge.process import Exit

START = 600.0  # seconds until the first goal is there: a large library is read before
TRACE = 24 * 3600.0  # the same, where LeanDojo may have to trace the repository
CHECK = 600.0  # for a whole proof
# LeanDojo asks nobody on the network, whatever a file `.env` above it says.
OFFLINE = {"DISABLE_REMOTE_CACHE": "1", "GITHUB_ACCESS_TOKEN": ""}
FILE = "Goal.lean"
LEAN = ("lake", "env", "lean", "--json")


class Dojos:
    """Up to `size` at once; whoever opens one more waits."""

    def __init__(self, project: Project, starter: Starter, env: Mapping[str, str], size: int) -> None:
        self.version = project.version
        self._project, self._starter = project, starter
        self._env = {**env, **OFFLINE}
        self._room = Semaphore(size)
        self._lock = Lock()
        self._copied: Copy | None = None

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[DojoSession, TacticState]:
        return self._begun(theorem, _named(theorem), stop)

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """In a Dojo, where all of the script has to be one tactic and no more, and then as a file by itself."""
        if why := refused_tactic("\n".join(script)):
            return LeanError(why, "refused")
        name, proof = _named(theorem), dojo_files.one_tactic(script)
        try:
            session, state = self._begun(theorem, name, stop)
        except NotElaborated as error:
            return LeanError(str(error), "elab")
        try:
            begun()
            if wrong := _wrong(session.run_tac(state, proof, CHECK)):
                return wrong
            file = Path(session.file)
            before = dojo_files.up_to_proof(file.read_text(encoding="utf-8"))
            whole = dojo_files.proved(before, proof, _global(theorem, name))
            return self._judged(file.parents[_depth(theorem)], file.parent, whole, stop)
        finally:
            session.close()

    def close(self) -> None:
        """Sessions end their own Dojos."""

    def _begun(self, theorem: Theorem, name: str, stop: Stop | None) -> tuple[DojoSession, TacticState]:
        _demand(theorem)
        while not self._room.acquire(timeout=LOOK):
            look(stop)
        session = DojoSession(theorem, lambda: self._opened(theorem, name, stop), self._room.release, stop)
        try:
            return session, session.begin()
        except BaseException:
            session.close()
            raise

    def _opened(self, theorem: Theorem, name: str, stop: Stop | None) -> tuple[DojoProcess, dict[str, Any]]:
        dojo_project.need_lake(self._env)
        cache = {} if theorem.file else {"CACHE_DIR": str(self._copy().cache)}
        dojo = DojoProcess(self._starter, {**self._env, **cache}, self._project.folder)
        try:
            answer = self._asked(dojo, theorem, name, stop)
        except BaseException:
            dojo.end()
            raise
        if "lost" in answer:
            dojo.end()
            raise self._unopened(theorem, answer["error"], stop)
        return dojo, answer

    def _asked(self, dojo: DojoProcess, theorem: Theorem, name: str, stop: Stop | None) -> dict[str, Any]:
        text = "" if theorem.file else dojo_files.gapped(theorem, name)
        where = {"repo": self._project.folder, "commit": self._project.commit, "file": theorem.file or FILE}
        try:
            request = {**where, "name": name, "text": text, "timeout": START}
            return dojo.ask(request, TRACE if theorem.file else START, stop)
        except Overrun:
            raise LeanStartError("LeanDojo does not start: it takes too long") from None
        except Ended as error:
            raise LeanStartError(f"LeanDojo does not start: {error}") from error

    def _copy(self) -> Copy:
        with self._lock:  # one makes it, the others want it too
            if self._copied is None:
                self._copied = dojo_project.copied(self._project, self._starter, self._env)
            return self._copied

    def _unopened(self, theorem: Theorem, error: str, stop: Stop | None) -> LeanStartError:
        """With what Lean has against a statement: LeanDojo tells no more than that Lean ended."""
        if theorem.file:
            return LeanStartError(f"{theorem.file}: {theorem.name}: LeanDojo does not open it: {error}")
        text = f"{dojo_files.head(theorem, _named(theorem))}by\n  sorry\n"
        root = self._copy().folder
        done = self._lean(root, root, text, stop)
        wrong = dojo_reading.first_error(dojo_reading.messages(done.out)) if done else ""
        return NotElaborated(wrong) if wrong else LeanStartError(f"LeanDojo does not start: {error}")

    def _judged(self, root: Path, folder: Path, file: Checked, stop: Stop | None) -> LeanError | None:
        done = self._lean(root, folder, file.text, stop)
        if done is None:
            return LeanError(f"not done after {CHECK:g} seconds; the process was killed", "timeout")
        if (number := signal_of(Exit(done.code))) in FROM_OUTSIDE:
            raise LeanKilled(f"Lean was killed by signal {number} from outside; is there memory enough?")
        return dojo_reading.verdict(file, done.code, dojo_reading.messages(done.out))

    def _lean(self, root: Path, folder: Path, text: str, stop: Stop | None) -> Ran | None:
        """A file of its own, for a moment in a folder of the project.  None: it takes too long."""
        with tempfile.NamedTemporaryFile("w", suffix=".lean", prefix="Checked", dir=folder, encoding="utf-8") as file:
            file.write(text)
            file.flush()
            argv = [*LEAN, os.path.relpath(file.name, root)]
            try:
                return ran(self._starter, argv, self._env, str(root), CHECK, stop)
            except Overrun:
                return None


def opened(path: str, starter: Starter, env: Mapping[str, str], size: int) -> Dojos:
    """Nothing is started before it is asked something."""
    return Dojos(dojo_project.project(path), starter, env, size)


def _wrong(answer: TacticResult) -> LeanError | None:
    match answer:
        case LeanError():
            return answer
        case TacticState():
            return LeanError("goals are left", "tactic")
        case ProofGivenUp():
            return LeanError("the proof was given up", "sorry")
        case ProofFinished():
            return None


def _demand(theorem: Theorem) -> None:
    """It can be put into a file, and do nothing there but be stated."""
    if theorem.file:
        return
    for why in (refused_statement(theorem.statement), *map(refused_before, theorem.before)):
        if why:
            raise NotElaborated(why)


def _named(theorem: Theorem) -> str:
    """Nothing that was written before can know the name of a statement."""
    return theorem.name if theorem.file else f"goal_{secrets.token_hex(8)}"


def _global(theorem: Theorem, name: str) -> str:
    """A theorem of a file may be within namespaces."""
    return f"_root_.{name}" if theorem.file else name


def _depth(theorem: Theorem) -> int:
    return len(Path(theorem.file or FILE).parts) - 1
