"""Interface of a Lean: theorems, states, answers, errors and sessions, by LeanDojo's names.

The key is of what the goal is, and of the commands before it, which decide what it means and what proves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol


def goal_key(before: Sequence[str], goal: str) -> str:
    return sha256(json.dumps([*before, goal]).encode()).hexdigest()


# Axioms that a proof may rest on.
TRUSTED = frozenset({"propext", "Classical.choice", "Quot.sound"})
IMPORT = "import "  # the commands that begin so stand before all others in a file


def is_import(command: str) -> bool:
    return command.strip().startswith(IMPORT)


class LeanKeys(NamedTuple):
    """Settings of the Lean of a run.  `memory`: megabytes after which a process makes place for a new one.

    `project`: the folder of a repository, whose toolchain is used."""

    backend: str = "wasm"
    processes: int = 2
    memory: int = 1400
    project: str = ""


@dataclass(frozen=True)
class Theorem:
    """`statement` is the proposition, all of its variables bound by it: what follows the colon of a theorem.

    `before`: commands that stand before it, such as `open Nat`.  For a theorem of a repository: its file."""

    name: str
    statement: str
    before: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class TacticState:
    """Goals left to prove.  A state stays as it is and may be used any number of times, as long as its session is open.

    `goals` as Lean prints them, the first being what a tactic works on."""

    id: int
    goals: tuple[str, ...]
    message: str = ""

    @property
    def pp(self) -> str:
        return "\n\n".join(self.goals)


@dataclass(frozen=True)
class ProofFinished:
    """A proof that the kernel took, on trusted axioms only."""

    id: int
    axioms: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class LeanError:
    """Failure of a tactic; `kind` is one of ERRORS."""

    error: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.error}"


@dataclass(frozen=True)
class ProofGivenUp:
    """Answer to a tactic that is one of GIVEN_UP."""


GIVEN_UP = ("sorry", "admit")
HEARTBEATS = 200_000  # Lean's own limit
A_SECOND = 4000  # heartbeats: from 2,000 to 9,000 of them take a second, by tactic
ERRORS = (
    "parse",  # not a tactic
    "tactic",  # it does not apply
    "sorry",  # the proof has a hole in it
    "heartbeats",
    "recursion",
    "timeout",  # of `run_tac`
    "refused",  # it could do input and output, or touch the environment
    "kernel",  # all goals were closed, but the kernel does not take the proof
    "axioms",  # the proof rests on others than the trusted ones
    "crash",  # it ended the process; the session goes on in a new one
    "elab",  # the statement does not elaborate; `open` raises NotElaborated instead
)

# Of a process rather than of what it was asked: it may have been killed, or the machine been busy.
UNTOLD = ("crash", "timeout")
TacticResult = TacticState | ProofFinished | LeanError | ProofGivenUp


class LeanStartError(Exception):
    """Error where there is no Lean, or none that starts."""


class NotElaborated(LeanStartError):
    """Error of a Lean that does not take the theorem's statement, or what stands before it."""


class LeanCrash(Exception):
    """Error of a process that ended, and could not be brought back to where it was."""


class LeanKilled(Exception):
    """Error where the machine ends the processes, as for want of memory: the request has no answer."""


class Interrupted(Exception):
    """End of a request that is not wanted any more: `stop` was set."""


class Stop(Protocol):
    """A flag that, set by any thread, soon interrupts all requests under it: `threading.Event` is one."""

    def is_set(self) -> bool: ...


Begun = Callable[[], object]


def unheard() -> None:
    """Ignore the begin of a check."""


class Session(Protocol):
    """One theorem, being proved: by one thread at a time."""

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        """Run a tactic on the first goal of `state`, for at most so many seconds, and so much work.

        By `heartbeats` it ends at the same point on any machine, however busy.  A backend that cannot count them takes
        A_SECOND of them for one."""

    def key(self, state: TacticState, goal: int = 0) -> str:
        """Key of a goal: the same for goals that differ only in names, order of hypotheses and what is implicit.

        The commands before the goal are part of it."""

    def close(self) -> None: ...


class Lean(Protocol):
    """A backend, or a pool of its processes."""

    @property
    def version(self) -> str:
        """Version in a word, which changes when answers may."""

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        """`stop` is for all that is asked of the session."""

    def check(
        self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None, begun: Begun = unheard
    ) -> LeanError | None:
        """Check the whole proof, tactic after tactic, in an environment that nothing was done in; None when it holds.

        `begun` is called when a Lean stands ready and is about to be asked: to wait for one, or to start it, is no part
        of what a check takes.  Called again, it is being done again."""

    def close(self) -> None: ...
