"""Script that holds one Dojo of LeanDojo: a request, then its word and the answer, each a line, as our REPL has it.

LeanDojo changes the working directory, starts Lean in a terminal of its own, and blocks: all of that stays in here.
It is run as a script: of Coppice it imports nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import tty
from pathlib import Path
from types import SimpleNamespace
from typing import Any

answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # LeanDojo, and what it runs while it traces, may print

from lean_dojo import (  # noqa: E402
    Dojo,
    DojoTacticTimeoutError,
    LeanError,
    LeanGitRepo,
    ProofFinished,
    ProofGivenUp,
    TacticState,
    Theorem,
)

Answer = dict[str, Any]


class StatementDojo(Dojo):  # type: ignore[misc]  # it is Any: LeanDojo has no types
    """A Dojo for a statement that stands in no file of the repository: its text is given, and nothing is traced."""

    def __init__(self, theorem: Theorem, text: str, timeout: float) -> None:
        super().__init__(theorem, timeout)
        self._text = text

    def _locate_traced_file(self, traced_repo_path: Path) -> SimpleNamespace:
        return SimpleNamespace(abs_path=traced_repo_path / self.file_path, has_prelude=False)

    def _get_modified_proof(self, traced_file: SimpleNamespace) -> str:
        return self._text


class DojoHolder:
    """Holder of the Dojo, and of its states by their numbers."""

    def __init__(self) -> None:
        self._dojo: Dojo | None = None
        self._states: dict[int, TacticState] = {}

    def open(self, repo: str, commit: str, file: str, name: str, text: str, timeout: float) -> Answer:
        """Open a theorem of the repository, or a statement by its `text`."""
        theorem = Theorem(LeanGitRepo(repo, commit), Path(file), name)
        dojo = StatementDojo(theorem, text, timeout) if text else Dojo(theorem, timeout)
        try:
            _, state = dojo.__enter__()
        except BaseException:
            if hasattr(dojo, "proc"):
                dojo.__exit__(None, None, None)
            raise
        tty.setraw(dojo.proc.child_fd)  # a terminal would cut lines at 4,095 bytes
        dojo.proc.delaybeforesend = None  # 50 ms before each request, for programs that ask for passwords
        self._dojo = dojo
        return {**self._state_answer(state), "file": dojo.modified_file.name}

    def tac(self, sid: int, tactic: str, timeout: float) -> Answer:
        assert self._dojo is not None
        self._dojo.proc.timeout = timeout
        try:
            result = self._dojo.run_tac(self._states[sid], tactic)
        except DojoTacticTimeoutError:
            return {"lost": "timeout", "error": f"not done after {timeout:g} seconds; the process was killed"}
        match result:
            case LeanError():
                return {"error": result.error}
            case ProofGivenUp():
                return {"error": "proof contains `sorry`"}
            case ProofFinished():
                return {"done": result.tactic_state_id, "message": result.message}
        return self._state_answer(result)

    def _state_answer(self, state: TacticState) -> Answer:
        self._states[state.id] = state
        return {"sid": state.id, "pp": state.pp, "message": state.message}

    def close(self) -> None:
        if self._dojo is not None:
            self._dojo.__exit__(None, None, None)


def main() -> None:
    held = DojoHolder()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is below is done
    try:
        for line in sys.stdin.buffer:  # UTF-8, whatever the locale says
            request = json.loads(line)
            word = request.pop("word")
            try:
                answer = held.tac(**request) if "sid" in request else held.open(**request)
            except Exception as error:  # noqa: BLE001  # LeanDojo raises assertions, too, where a process ended
                answer = {"lost": "crash", "error": f"{type(error).__name__}: {error}".rstrip(": ")}
            print(word, json.dumps(answer), file=answers, flush=True)
    finally:
        held.close()


main()
