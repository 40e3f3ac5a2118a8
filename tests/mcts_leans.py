"""A Lean that knows what a world knows: it takes a while, has its limits, and may be killed."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mcts_worlds import World

from pipeline.edge.lean.model import (
    Interrupted,
    LeanCrash,
    LeanError,
    ProofFinished,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.mcts.priors import Proposal
from pipeline.mcts.trying import Guide
from pipeline.tactics.goal import PrintedGoal

BOUND = 30.0  # seconds after which a test that hangs fails
GOAL = Theorem("t", "that")


class TableLean:
    """`during` is called in whichever thread runs a tactic, with its name and whether it is still wanted; and in a
    check, of which a crash is the answer.

    `room`: for so many sessions at once; whoever opens one more waits.  `count`: what was asked and answered."""

    version = "table"

    def __init__(self, world: World, during: Callable[[str, Stop], object], room: int = 99) -> None:
        self.world, self.during = world, during
        self.room = threading.Semaphore(room)
        self.lock = threading.Lock()
        self.count = Counter[str]()

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[TableSession, TacticState]:
        assert stop is not None
        if not self.room.acquire(blocking=False):
            hang(stop)
        self.counted("opened")
        return TableSession(self, stop), TacticState(0, (f"⊢ {next(iter(self.world.table))}",))

    def check(self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None) -> LeanError | None:
        """The goals come in the order of the script: each line is about the first that is left."""
        try:
            self.during("check", stop or threading.Event())
        except LeanCrash as error:
            return LeanError(str(error), "crash")
        goals: tuple[str, ...] = (next(iter(self.world.table)),)
        for line in script:
            left = self.world.table[goals[0]][line.lstrip("· ")]
            if left is None:
                return LeanError(line, "tactic")
            goals = (*left, *goals[1:])
        return LeanError("goals are left", "tactic") if goals else None

    def counted(self, what: str) -> None:
        with self.lock:
            self.count[what] += 1

    def close(self) -> None:
        pass


class TableSession:
    def __init__(self, lean: TableLean, stop: Stop) -> None:
        self.lean, self.stop = lean, stop
        self.taken = threading.Lock()
        self.is_open = True

    def run_tac(self, state: TacticState, tactic: str, timeout: float) -> TacticResult:
        with self.alone():
            if not tactic.startswith("("):
                self.lean.during(tactic.removeprefix("focus "), self.stop)
            self.lean.counted("run")
            return self.left(state, tactic.removeprefix("focus "))

    def left(self, state: TacticState, tactic: str) -> TacticResult:
        if rotated := re.fullmatch(r"\(rotate_left (\d+)\)", tactic):
            place = int(rotated[1])
            return TacticState(0, (*state.goals[place:], *state.goals[:place]))
        left = self.lean.world.table[state.goals[0].removeprefix("⊢ ")][tactic]
        if left is None:
            return LeanError("it does not apply", "tactic")
        goals = (*(f"⊢ {goal}" for goal in left), *state.goals[1:])
        return TacticState(0, goals) if goals else ProofFinished(0)

    def key(self, state: TacticState, goal: int = 0) -> str:
        with self.alone():
            self.lean.counted("key")
            return state.goals[goal]

    @contextmanager
    def alone(self) -> Iterator[None]:
        assert self.is_open
        assert self.taken.acquire(blocking=False), "two threads in one session"
        try:
            yield
        finally:
            self.taken.release()

    def close(self) -> None:
        with self.alone():
            self.is_open = False
        self.lean.counted("closed")
        self.lean.room.release()


def guide(world: World) -> Guide:
    def priors(goal: PrintedGoal) -> list[Proposal]:
        return [Proposal(move.tactic, move.prior) for move in world.moves(goal.target)]

    return Guide(priors, lambda goal, count: world.values.get(goal.target, 0.5))


def hang(stop: Stop) -> None:
    """As Lean does on some tactics, until it is not wanted any more."""
    until = time.monotonic() + BOUND
    while not stop.is_set():
        assert time.monotonic() < until, "nobody stops it"
        time.sleep(0.005)
    raise Interrupted
