"""Warm Lean processes, lent to sessions and replaced when they end."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock

from pipeline.edge.lean.model import LeanError, ProofFinished, TacticState, Theorem
from pipeline.edge.lean.process import Command, Repl, Starter
from pipeline.edge.lean.session import ReplSession


class Slot:
    def __init__(self, command: Command, starter: Starter) -> None:
        self._command, self._starter = command, starter
        self._repl: Repl | None = None
        self._process = 0
        self.lock = RLock()

    def repl(self) -> tuple[Repl, int]:
        if self._repl is None:
            self._repl = Repl(self._command, self._starter)
            self._process += 1
        return self._repl, self._process

    def lost(self, repl: Repl) -> None:
        repl.end()
        self._repl = None

    def close(self) -> None:
        if self._repl is not None:
            self.lost(self._repl)


class Pool:
    def __init__(self, command: Command, starter: Starter, size: int = 1, version: str = "") -> None:
        self.size = size
        self.version = version
        self._slots = [Slot(command, starter) for _ in range(size)]

    def open(self, theorem: Theorem) -> tuple[ReplSession, TacticState]:
        session = ReplSession(theorem, self._slots[0])
        return session, session.begin()

    def check(self, theorem: Theorem, script: Sequence[str]) -> LeanError | None:
        session, state = self.open(theorem)
        for tactic in script:
            answer = session.run_tac(state, tactic, 60)
            if isinstance(answer, LeanError):
                return answer
            if isinstance(answer, ProofFinished):
                return None
            if not isinstance(answer, TacticState):
                return LeanError("given up", "sorry")
            state = answer
        return LeanError("goals are left", "tactic")

    def close(self) -> None:
        for slot in self._slots:
            slot.close()
