"""The backend leandojo: theorems proved by the package lean_dojo in a repository with a Lean of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any

from pipeline.lean.dojo import project
from pipeline.lean.dojo import text as dojo_text
from pipeline.lean.dojo.process import CompletedCommand, DojoProcess, DojoSession, run_to_end
from pipeline.lean.dojo.project import DojoProject
from pipeline.lean.dojo.text import WholeProofFile, preamble_refusal, statement_refusal, tactic_refusal
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
from pipeline.machine.failures import FROM_OUTSIDE, signal_of
from pipeline.machine.process import Exit
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
                self._copied = project.cached_copy(self._project, self._starter, self._env)
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
