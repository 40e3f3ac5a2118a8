"""The worker micro on a real Lean: what it proves holds as a script, and it ends when it is to end."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from kit.leaning import command

from pipeline.commands.upkeep import BANK
from pipeline.goals.bank import Goal
from pipeline.lean.model import Interrupted, Lean, LeanStartError, Session, Stop, TacticResult, TacticState, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes
from pipeline.proof.schedule.records import WorkerResult
from pipeline.proof.workers import micro
from pipeline.proof.workers.best_first import SearchOptions
from pipeline.proof.workers.micro import run_micro

PLENTY = 60.0
UNKNOWN = "∀ n : Nat, 1 < n → ∃ k, n < k ∧ k < 2 * n + 7 ∧ ∀ a b : Nat, a * b = k → a = 1 ∨ b = 1"
DEFINED = ("def double : Nat → Nat | 0 => 0 | n + 1 => double n + 2",)


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    processes = Processes(["micro"])
    try:
        with closing(Pool(command(), processes)) as pool:
            yield pool
    finally:
        processes.close()


def proved(lean: Lean, text: str, *context: str, **how: frozenset[str]) -> WorkerResult:
    """It is proved, and the script holds in an environment where nothing was done."""
    goal = Goal("g", text, context=context)
    result = micro.prove_goal(goal, PLENTY, lean, SearchOptions(**how) if how else None)
    assert result.success, result.error
    assert lean.check(Theorem("g", text, context), result.tactics) is None
    return result


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("logic", "∀ p q : Prop, p ∧ ¬q → ¬(p → q)"),
        ("induction", "∀ n : Nat, n < 2 ^ n"),
        ("cases", "∀ p : Bool → Prop, p true → p false → ∀ b, p b"),
        ("witnesses", "∀ n : Nat, n % 2 = 1 → ∃ k, n = 2 * k + 1"),
        ("residues", "∀ n : Nat, n ^ 2 % 3 ≠ 2"),
        ("polynomials", "∀ x : Int, x ^ 2 + 6 = 5 * x → x = 2 ∨ x = 3"),
        ("factors", "∀ x y : Nat, x * y + x + y = 34 → x ≤ 34"),
        ("bounds", "∀ n : Nat, n < 30 → n ^ 4 % 5 ≤ 1"),
        ("quotients", "∀ a b : Int, a - b ∣ a ^ 3 - b ^ 3"),
        ("laws", "∀ a b n : Nat, a ≤ b → a ^ n ≤ b ^ n"),
        ("powers", "∀ n : Nat, 2 ^ n % 3 = 1 ∨ 2 ^ n % 3 = 2"),
    ],
)
def test_each_family_alone_with_what_finishes_proves_something(lean, family, text):
    proved(lean, text, families=frozenset({family, "finishers"}))


def test_a_proof_of_several_goals_has_a_block_for_each(lean):
    result = proved(lean, "∀ p q : Nat → Prop, p 0 → (∀ n, p n → p (n + 1)) → ∀ n, p n ∧ n + 0 = n")
    assert sum(tactic.startswith("· ") for tactic in result.tactics) >= 2


def test_what_the_goal_s_own_commands_define_is_used(lean):
    assert "definitions" in proved(lean, "∀ n : Nat, double n = 2 * n", *DEFINED).metadata["families"]


def test_families_that_are_left_out_are_not_used(lean):
    only = frozenset({"finishers", "induction"})
    used = proved(lean, "∀ n : Nat, 0 < 2 ^ n", families=only).metadata["families"]
    assert set(used) <= {*only, "logic"}  # what cannot be wrong is not a choice


def test_with_nothing_left_to_try_it_says_so(lean):
    result = micro.prove_goal(
        Goal("g", "∀ p q : Prop, p → q"), PLENTY, lean, SearchOptions(frozenset({"cases", "finishers"}))
    )
    assert not result.success
    assert result.error == "nothing more to try"


def test_it_ends_when_its_time_is_over(lean):
    begun = time.monotonic()
    result = micro.prove_goal(Goal("g", UNKNOWN), 1.0, lean)
    assert (result.success, result.error) == (False, "timeout")
    assert time.monotonic() - begun < PLENTY


def test_a_clock_that_is_given_is_the_one_that_counts(lean):
    ticks = iter(range(1000))
    result = micro.prove_goal(Goal("g", UNKNOWN), 20.0, lean, clock=lambda: float(next(ticks)))
    assert result.error == "timeout"
    assert sum(result.metadata["seconds_by_family"].values()) <= 20.0


class Slow:
    """A Lean by whose clock each tactic takes `each` seconds, and the whole proof once more `replay`."""

    def __init__(self, lean: Lean, each: float, replay: float) -> None:
        self.lean, self.each, self.replay, self.now = lean, each, replay, 0.0
        self.replays = 0

    def clock(self) -> float:
        return self.now

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        self.now += 100.0  # a process has to start: nobody's time
        self.session, state = self.lean.open(theorem, stop)
        return self, state  # type: ignore[return-value]

    def run_tac(self, state: TacticState, tactic: str, timeout: float) -> TacticResult:
        is_whole = timeout == micro.RERUN_SECONDS
        self.replays += is_whole
        self.now += self.replay if is_whole else self.each
        return self.session.run_tac(state, tactic, PLENTY)

    def close(self) -> None:
        self.session.close()


BRANCHING = "∀ p q : Nat → Prop, p 0 → (∀ n, p n → p (n + 1)) → ∀ n, p n ∧ n + 0 = n"


def test_doing_a_proof_once_more_is_outside_of_its_budget_and_no_part_of_its_time(lean):
    slow = Slow(lean, each=0.125, replay=25.0)
    result = micro.prove_goal(Goal("g", BRANCHING), 10.0, slow, clock=slow.clock)
    assert (result.success, result.error, slow.replays) == (True, "", 1)
    assert result.time_seconds == 0.125 * result.metadata["calls"] <= 10.0
    assert result.metadata["replay_seconds"] == 25.0


def test_a_proof_that_is_found_when_the_budget_is_over_is_none(lean):
    whole, goal = Slow(lean, each=1.0, replay=1.0), Goal("g", "∀ n : Nat, n < 2 ^ n")
    calls = micro.prove_goal(goal, 1000.0, whole, clock=whole.clock).metadata["calls"]
    for budget, success in ((calls + 0.0, True), (calls - 0.5, False)):  # the last tactic begins in time in both
        slow = Slow(lean, each=1.0, replay=1.0)
        result = micro.prove_goal(goal, budget, slow, clock=slow.clock)
        assert (result.success, result.error) == (success, "" if success else "timeout")
        assert (result.time_seconds, bool(result.tactics)) == (float(calls), success)


def test_once_stopped_nothing_is_asked(lean):
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        micro.prove_goal(Goal("g", UNKNOWN), PLENTY, lean, stop=stop)


def test_run_micro_is_a_function_that_anybody_may_call(lean):
    found = asyncio.run(run_micro(Goal("g", "∀ p q : Prop, p ∧ q → q ∧ p"), 8.0, lean))
    assert (found.success, found.strategy, found.error) == (True, "micro", "")
    assert lean.check(Theorem("g", "∀ p q : Prop, p ∧ q → q ∧ p"), found.tactics) is None


def test_run_micro_brings_a_lean_of_its_own_where_none_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(run_micro(Goal("g", "2 + 2 = 4"), 8.0)).success
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("text", "context"), [("∀ n : Nat, foo n", ()), ("1 = 1", ("def x : Nat := true",)), ("Nat", ())]
)
def test_a_goal_that_does_not_elaborate_is_a_result_that_says_so(lean, text, context):
    result = asyncio.run(run_micro(Goal("g", text, context=context), 8.0, lean))
    assert not result.success
    assert result.error.startswith("it does not elaborate: ")
    assert result.tactics == ()


def test_that_there_is_no_lean_is_no_result():
    class Gone:
        def open(self, *_):
            raise LeanStartError("Lean does not start")

    with pytest.raises(LeanStartError):
        asyncio.run(run_micro(Goal("g", "1 = 1"), 8.0, Gone()))


def test_the_goals_that_init_writes_are_proved(lean: Lean) -> None:
    rows = [json.loads(line) for line in BANK.splitlines()]
    assert len(rows) == 4
    for row in rows:
        proved(lean, row["goal"])
