"""Warm Lean processes, shared by the sessions of many theorems, and others that nothing but whole proofs is done in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from pipeline.edge.lean.model import Begun, LeanError, NotElaborated, Stop, TacticState, Theorem, unheard
from pipeline.edge.lean.process import Command, Ended, Overrun, Starter
from pipeline.edge.lean.session import GRACE, ReplSession, failed, milliseconds, untrusted
from pipeline.edge.lean.slots import Slot
from pipeline.edge.lean.warm import Warm

CHECK = 60.0  # seconds for a whole proof
MEGABYTE = 1 << 20
MEMORY = 1400  # megabytes


class Pool:
    """At most `size` processes for sessions; each starts when those before it have one, and another is opened.

    Checks have processes of their own, in which no session ever was: `size` of them, or one when there are sessions."""

    def __init__(
        self, command: Command, starter: Starter, size: int = 1, version: str = "", memory: int = MEMORY
    ) -> None:
        """`memory`: megabytes above which a process makes place for a new one."""
        self.version = version
        self._lock = Lock()
        self._slots, self._clean = ([Slot(command, starter, memory * MEGABYTE) for _ in range(size)] for _ in range(2))
        self._has_sessions = False

    def warm(self) -> None:
        """Start all that sessions may need, without waiting until they are ready."""
        for slot in self._slots:
            slot.start()

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[ReplSession, TacticState]:
        slot = self._entered(self._slots, has_sessions=True)
        session = ReplSession(theorem, slot, stop)
        try:
            return session, session.begin()
        except BaseException:
            session.close()
            raise

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """The lines of the script as they would stand after `by`."""
        slot = self._entered(self._clean)
        try:
            return _judged(slot.use(lambda warm: _checked(warm, theorem, "\n".join(script), stop, begun), stop))
        except NotElaborated as error:
            return LeanError(str(error), "elab")
        except (Ended, Overrun) as error:
            return failed(error)
        finally:
            slot.leave()

    def _entered(self, slots: Sequence[Slot], has_sessions: bool = False) -> Slot:
        """The one with the fewest in it; of equals the first, so that no more start than are needed."""
        with self._lock:
            self._has_sessions |= has_sessions
            if slots is self._clean and self._has_sessions:
                slots = slots[:1]
            slot = min(slots, key=lambda each: each.load)
            slot.enter()
            return slot

    def pids(self) -> list[int]:
        """Of all processes that there are now."""
        return [slot.pid for slot in [*self._slots, *self._clean] if slot.pid]

    def close(self) -> None:
        for slot in [*self._slots, *self._clean]:
            slot.close()


def _checked(warm: Warm, theorem: Theorem, script: str, stop: Stop | None, begun: Begun) -> dict[str, Any]:
    warm.tidy(True, stop)  # nothing that a check makes is for another
    env = warm.environment(theorem.before, stop)
    named = {"cmd": "check", "env": env, "statement": theorem.statement, "name": theorem.name}
    begun()
    return warm.ask({**named, "script": script, "timeout_ms": milliseconds(CHECK)}, CHECK + GRACE, stop)


def _judged(answer: Mapping[str, Any]) -> LeanError | None:
    if "error" in answer:
        return LeanError(answer["error"], answer["kind"])
    foreign = untrusted(answer)
    return LeanError(foreign, "axioms") if foreign else None
