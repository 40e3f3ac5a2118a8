"""A Lean that knows what a world knows: it takes a while, has its limits, and may be killed."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kit.mcts_worlds import World
from kit.project import PATIENCE
from pipeline.lean.model import (
    HEARTBEATS,
    Interrupted,
    LeanCrash,
    LeanError,
    ProofFinished,
    Stop,
    TacticResult,
    TacticState,
    Theorem,
)
from pipeline.mcts.search.guides import Guide, Proposal
from pipeline.tactics.text.goal import PrintedGoal

BOUND = PATIENCE
GOAL = Theorem("t", "that")
FRONT = re.compile(r"\((?:rotate_left (\d+); )?rename_i hyp\)")

# Called in whichever thread it is done with what is done: a tactic, "front", "open" or "check"; and whether it is still
# wanted.
During = Callable[[str, Stop], object]


class Killed(Exception):
    """The process ended while it was asked; another one is there."""


class TableLean:
    """Each goal has a hypothesis without a name.  `count`: what was asked and answered."""

    version = "table"

    def __init__(self, world: World, during: During) -> None:
        self.world, self.during = world, during
        self.lock = threading.Lock()
        self.count = Counter[str]()

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[TableSession, TacticState]:
        assert stop is not None
        self.during("open", stop)
        self.counted("opened")
        return TableSession(self, stop), TacticState(0, (printed(next(iter(self.world.table))),))

    def check(self, theorem: Theorem, script: Sequence[str], stop: Stop | None = None) -> LeanError | None:
        """The goals come in the order of the script: each line is about the first that is left."""
        try:
            self.during("check", stop or threading.Event())
        except (Killed, LeanCrash) as error:
            return LeanError(str(error), "crash")
        goals: tuple[str, ...] = (next(iter(self.world.table)),)
        for line in [line.lstrip("· ") for line in script if not line.endswith("rename_i hyp")]:
            left = self.world.table[goals[0]][line]
            if left is None:
                return LeanError(line, "tactic")
            goals = (*left, *goals[1:])
        return LeanError("goals are left", "tactic") if goals else None

    def counted(self, what: str) -> None:
        with self.lock:
            self.count[what] += 1

    def close(self) -> None:
        pass


def printed(goal: str) -> str:
    return f"hyp✝ : P\n⊢ {goal}"


class TableSession:
    def __init__(self, lean: TableLean, stop: Stop) -> None:
        self.lean, self.stop = lean, stop
        self.taken = threading.Lock()
        self.is_open = True
        self.is_lost = False  # its process ended when it was interrupted

    def run_tac(self, state: TacticState, tactic: str, timeout: float, heartbeats: int = HEARTBEATS) -> TacticResult:
        with self.alone():
            tactic = tactic.removeprefix("focus ")
            try:
                self.lean.during("front" if FRONT.fullmatch(tactic) else tactic, self.stop)
            except Killed:
                return LeanError("it ended", "crash")
            self.lean.counted("run")
            return self.left(state, tactic)

    def left(self, state: TacticState, tactic: str) -> TacticResult:
        if front := FRONT.fullmatch(tactic):
            place = int(front[1] or 0)
            goals = (*state.goals[place:], *state.goals[:place])
            return TacticState(0, (goals[0].replace("✝", ""), *goals[1:]))
        left = self.lean.world.table[state.goals[0].partition("⊢ ")[2]][tactic]
        if left is None:
            return LeanError("it does not apply", "tactic")
        goals = (*map(printed, left), *state.goals[1:])
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
            self.look()
            yield
        except Interrupted:
            self.is_lost = True
            raise
        finally:
            self.taken.release()

    def look(self) -> None:
        if self.stop.is_set():
            raise Interrupted
        if self.is_lost:
            self.lean.counted("started again")
            self.is_lost = False

    def close(self) -> None:
        assert self.is_open
        assert not self.taken.locked()
        self.is_open = False
        self.lean.counted("closed")


def guide(world: World) -> Guide:
    def priors(goal: PrintedGoal) -> list[Proposal]:
        return [Proposal(move.tactic, move.prior) for move in world.moves(goal.target)]

    return Guide(priors, lambda goal, count: world.values.get(goal.target, 0.5))


class Hanging:
    """As Lean does on some tactics, until it is not wanted any more."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.interrupted = False

    def hang(self, stop: Stop) -> None:
        until = time.monotonic() + BOUND
        self.begun.set()
        while not self.interrupted:
            assert time.monotonic() < until, "nobody stops it"
            time.sleep(0.002)
            self.interrupted = stop.is_set()
        raise Interrupted
