"""A theorem being proved: its states stay, whatever becomes of the process they are in."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread

import pytest
from kit.leaning import command

from pipeline.lean.model import (
    Interrupted,
    LeanError,
    NotElaborated,
    ProofFinished,
    ProofGivenUp,
    Session,
    TacticState,
    Theorem,
)
from pipeline.lean.repl.pool import Pool, answer_error, milliseconds
from pipeline.machine.process import Processes

SWAP = Theorem("swap", "∀ p q : Prop, p ∧ q → q ∧ p")
HUGE = Theorem("huge", "2^(2008^2+2^2008) % 10 = 6")  # `omega` on it ends the process
LONG = Theorem("long", "(3^16000000) % 7 = 4")  # `decide +kernel` does not look at the clock for many seconds


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    processes = Processes(["lean"])
    with closing(processes), closing(Pool(command(), processes)) as pool:
        yield pool


def pid(pool: Pool) -> int:
    (only,) = pool.pids()
    return only


def killed(pool: Pool) -> int:
    """Its process, which has ended."""
    found = pid(pool)
    os.kill(found, signal.SIGKILL)
    os.waitid(os.P_PID, found, os.WEXITED | os.WNOWAIT)
    return found


def state(answer: object) -> TacticState:
    assert isinstance(answer, TacticState), answer
    return answer


def halves(session: Session, start: TacticState) -> TacticState:
    return state(session.run_tac(state(session.run_tac(start, "intro p q h", 60)), "constructor", 60))


def test_any_state_may_be_gone_on_from_any_number_of_times(pool: Pool) -> None:
    with closing(pool.open(SWAP)[0]) as session:
        start = session.begin()
        named = [state(session.run_tac(start, f"intro p q {name}", 60)) for name in "hk"]
        for name, each in zip("hk", named, strict=True):
            assert f"{name} : p ∧ q" in each.pp
            assert isinstance(session.run_tac(each, f"exact ⟨{name}.2, {name}.1⟩", 60), ProofFinished)


def test_the_loss_of_the_process_between_two_tactics_goes_unnoticed(pool: Pool) -> None:
    session, start = pool.open(SWAP)
    both = halves(session, start)
    before = killed(pool)
    right = state(session.run_tac(both, "exact h.2", 60))
    assert right.goals == both.goals[1:]
    assert isinstance(session.run_tac(right, "exact h.1", 60), ProofFinished)
    assert pid(pool) != before
    session.close()


def test_a_tactic_that_ends_the_process_fails_and_is_not_run_again(pool: Pool) -> None:
    (session, start), (huge, odd) = pool.open(SWAP), pool.open(HUGE)
    both, before = halves(session, start), pid(pool)
    answer = huge.run_tac(odd, "omega", 60)
    assert isinstance(answer, LeanError)
    assert answer.kind == "crash"
    assert state(session.run_tac(both, "exact h.2", 60)).goals == both.goals[1:]
    assert isinstance(huge.run_tac(odd, "skip", 60), TacticState)
    after = pid(pool)
    assert after != before
    assert huge.run_tac(odd, "nonsense", 9) == session.run_tac(both, "nonsense", 60)
    assert pid(pool) == after
    session.close()
    huge.close()


def test_an_interrupted_session_ends_at_once_and_the_others_go_on(pool: Pool) -> None:
    stop = Event()
    (session, start), (long, odd) = pool.open(SWAP), pool.open(LONG, stop)
    both, ended = halves(session, start), []

    def run() -> None:
        with pytest.raises(Interrupted):
            long.run_tac(odd, "decide +kernel", 60)
        ended.append(time.monotonic())

    thread = Thread(target=run)
    thread.start()
    time.sleep(0.3)  # the tactic is under way, or waits for its turn: the promise is the same
    set_at = time.monotonic()
    stop.set()
    assert state(session.run_tac(both, "exact h.2", 60)).goals == both.goals[1:]
    thread.join()
    assert ended[0] - set_at < 3  # half a second, but for what else the machine does
    with pytest.raises(Interrupted):
        long.run_tac(odd, "skip", 60)
    session.close()
    long.close()


def test_giving_up_is_no_error_of_a_tactic(pool: Pool) -> None:
    session, start = pool.open(SWAP)
    assert {session.run_tac(start, tactic, 60) for tactic in ("sorry", " admit")} == {ProofGivenUp()}
    session.close()


def test_axioms_of_ones_own_are_no_proof_whatever_the_process_says() -> None:
    assert answer_error({"axioms": ["propext", "Quot.sound"]}) is None
    wrong = answer_error({"axioms": ["propext", "no", "Lean.ofReduceBool"]})
    assert wrong == LeanError("the proof rests on Lean.ofReduceBool, no", "axioms")


@pytest.mark.parametrize(
    ("theorem", "why"),
    [
        (Theorem("a", "1 = true"), "true"),
        (Theorem("a", "True", ("open Nowhere",)), "open Nowhere: .*Nowhere"),
    ],
)
def test_a_theorem_that_does_not_elaborate_is_told_from_no_lean(pool: Pool, theorem: Theorem, why: str) -> None:
    with pytest.raises(NotElaborated, match=why):
        pool.open(theorem)


def test_commands_before_a_theorem_are_in_force(pool: Pool) -> None:
    session, start = pool.open(Theorem("a", "succ 0 = two", ("open Nat", "def two := 1")))
    assert isinstance(session.run_tac(start, "rfl", 60), ProofFinished)
    session.close()


def test_keys_are_those_of_goals_and_not_of_names(pool: Pool) -> None:
    keys = []
    for statement in ("∀ a b : Nat, a + b = b + a", "∀ x y : Nat, x + y = y + x", "∀ x y : Nat, x + y = x + y"):
        session, start = pool.open(Theorem("a", statement))
        keys.append(session.key(start))
        session.close()
    assert keys[0] == keys[1] != keys[2]
    assert {len(key) for key in keys} == {64}


def test_the_same_words_after_other_commands_have_another_key(pool: Pool) -> None:
    keys = []
    for number in (2, 2, 3):
        session, start = pool.open(Theorem("a", "two = 2", (f"def two := {number}",)))
        keys.append(session.key(start))
        session.close()
    assert keys[0] == keys[1] != keys[2]


def test_goals_too_large_to_be_written_down_are_known_by_their_words_in_any_process(pool: Pool) -> None:
    keys, pairs = [], " × ".join(["Nat"] * 60)  # each of the list's cells has its type in it
    for number in (2, 1, 2):
        session, start = pool.open(Theorem("a", f"∀ z : {pairs}, [{', '.join(['z'] * 600)}].length = 600 * {number}"))
        keys.append(session.key(start))
        session.close()
        if len(keys) == 1:
            killed(pool)  # the next one has the same numbers for its states
    assert keys[1] != keys[0] == keys[2]


def test_a_closed_session_is_closed(pool: Pool) -> None:
    session, start = pool.open(SWAP)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.run_tac(start, "skip", 60)


def test_the_least_timeout_is_not_none_at_all() -> None:
    assert [milliseconds(seconds) for seconds in (0.0, 0.0001, 0.5, 2)] == [1, 1, 500, 2000]
