"""Several processes: which is asked, in whose turn, and when one makes place for another.

Where it does not matter what is proved, a few lines of Python answer in Lean's place: they start at once, and do when
they are asked what a Lean does when it happens."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from kit.leaning import command
from kit.project import PATIENCE, ROOT

from pipeline.goals.bank import Goal
from pipeline.lean.model import Interrupted, LeanCrash, LeanError, LeanStartError, Session, TacticState, Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.lean.repl.process import FairLock, LeanCommand
from pipeline.machine.process import BuildStopping, Processes
from pipeline.proof.workers import micro

STAND_IN = """
import json, os, sys, time
states, kept, hangs = 0, [], False
print("\\nready {}", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    with open("asked", "a") as log: print(os.getpid(), line.strip(), file=log)
    states += 1
    answer = {"sid": states, "goals": [asked.get("statement", "⊢ left")], "info": "", "env": states, "messages": [],
              "axioms": []}
    match asked.get("tactic", asked.get("statement", "")).split():
        case ["pid"]: answer["goals"] = [f"⊢ {os.getpid()}"]
        case ["sleep", seconds]: time.sleep(float(seconds))
        case _ if asked["cmd"] == "key": os._exit(1)
        case ["grow", size]: kept.append(os.urandom(int(size)))
        case _ if hangs: time.sleep(60)
        case ["hang"]: hangs = True
    print(asked["word"], json.dumps(answer), flush=True)
"""
ANY = Theorem("a", "⊢ p")
SWAP = Theorem("swap", "∀ p q : Prop, p ∧ q → q ∧ p")
Pooled = Callable[..., Pool]


@pytest.fixture
def pooled(processes: Processes, tmp_path: Path) -> Iterator[Pooled]:
    """Of stand-ins."""
    with ExitStack() as stack:

        def make(size: int = 1, **more: Any) -> Pool:
            program = LeanCommand((sys.executable, "-c", STAND_IN), dict(os.environ), str(tmp_path))
            return stack.enter_context(closing(Pool(program, processes, size, **more)))

        yield make


@pytest.fixture
def pool(processes: Processes) -> Iterator[Pool]:
    """Of Lean."""
    with closing(Pool(command(), processes, 2)) as pool:
        yield pool


def asked(tmp_path: Path, word: str) -> list[str]:
    return [line for line in (tmp_path / "asked").read_text().splitlines() if f'"cmd":"{word}"' in line]


def test_nothing_starts_before_it_is_needed(pooled: Pooled) -> None:
    pool = pooled(3)
    assert pool.pids() == []
    first, _ = pool.open(ANY)
    (one,) = pool.pids()
    second, _ = pool.open(ANY)
    assert (len(pool.pids()), pool.pids()[0]) == (2, one)
    first.close()
    pool.open(ANY)
    assert len(pool.pids()) == 2
    second.close()


def test_sessions_are_spread_evenly_and_a_closed_one_makes_room(pooled: Pooled) -> None:
    pool = pooled(2)

    def where(session: Session) -> str:
        return session.run_tac(TacticState(0, ()), "pid", 60).goals[0]  # type: ignore[union-attr]

    sessions = [pool.open(ANY)[0] for _ in range(6)]
    assert len({*map(where, sessions[::2])}) == len({*map(where, sessions[1::2])}) == 1
    assert where(sessions[0]) != where(sessions[1])
    for session in sessions[1::2]:
        session.close()
        session.close()  # is no second place
    first, second = (f"⊢ {pid}" for pid in pool.pids())
    assert [where(pool.open(ANY)[0]) for _ in range(4)] == [second, second, second, first]


def test_a_process_that_has_grown_makes_place_for_a_new_one(pooled: Pooled) -> None:
    session, start = (pool := pooled(memory=1)).open(ANY)
    (before,) = pool.pids()
    grown = session.run_tac(start, "grow 100000000", 60)
    assert isinstance(grown, TacticState)
    deadline = time.monotonic() + PATIENCE
    while pool.pids() == [before] and time.monotonic() < deadline:
        assert isinstance(session.run_tac(start, "skip", 60), TacticState)
    assert pool.pids() != [before]
    assert not psutil.pid_exists(before)


def test_one_that_is_large_from_the_start_is_not_replaced_for_that(pooled: Pooled) -> None:
    session, start = (pool := pooled(memory=1)).open(ANY)
    before = pool.pids()
    time.sleep(0.6)  # so that it is looked at
    session.run_tac(start, "skip", 60)
    assert pool.pids() == before


def test_a_replay_that_gives_something_else_is_a_crash(pooled: Pooled) -> None:
    session, start = (pool := pooled()).open(ANY)
    place = session.run_tac(start, "pid", 60)
    assert isinstance(place, TacticState)
    os.kill(pool.pids()[0], signal.SIGKILL)
    os.waitid(os.P_PID, pool.pids()[0], os.WEXITED | os.WNOWAIT)
    with pytest.raises(LeanCrash, match=rf"a: state 1 is ⊢ \d+ now; it was {place.pp}"):
        session.run_tac(place, "skip", 60)


def test_a_goal_whose_key_ends_the_process_is_known_by_its_words(pooled: Pooled) -> None:
    pool = pooled()
    found = []
    for statement in ("⊢ p", "⊢ p", "⊢ q"):
        session, start = pool.open(replace(ANY, statement=statement))
        found.append(session.key(start))
        assert isinstance(session.run_tac(start, "skip", 60), TacticState)
    assert found[0] == found[1] != found[2]


def test_states_of_closed_sessions_are_dropped_with_the_next(pooled: Pooled, tmp_path: Path) -> None:
    pool = pooled()
    (one, first), (two, second) = pool.open(ANY), pool.open(ANY)
    one.run_tac(first, "skip", 60)
    two.run_tac(second, "skip", 60)
    one.close()
    two.close()
    assert asked(tmp_path, "drop") == []
    pool.open(ANY)
    (dropped,) = asked(tmp_path, "drop")
    assert '"sids":[1,3,2,4]' in dropped


def test_what_stands_before_theorems_is_elaborated_once(pooled: Pooled, tmp_path: Path) -> None:
    pool = pooled()
    for before in ((), ("open Nat",), ("open Nat", "def a := 1"), ("open Nat",)):
        pool.open(replace(ANY, before=before))
    assert len(asked(tmp_path, "cmd")) == 2


def test_environments_that_nobody_needs_are_forgotten(pooled: Pooled, tmp_path: Path) -> None:
    pool = pooled()
    for number in range(40):
        pool.open(replace(ANY, before=(f"def a := {number}",)))[0].close()
    assert len(asked(tmp_path, "forget")) == 1
    still, start = pool.open(ANY)
    for number in range(40):
        pool.open(replace(ANY, before=(f"def a := {number}",)))[0].close()
    assert len(asked(tmp_path, "forget")) == 1
    assert isinstance(still.run_tac(start, "skip", 60), TacticState)


def test_environments_of_checks_are_forgotten_too(pooled: Pooled, tmp_path: Path) -> None:
    pool = pooled()
    for number in range(40):
        assert pool.check(replace(ANY, before=(f"def a := {number}",)), ["skip"]) is None
    assert len(asked(tmp_path, "forget")) == 1


def test_a_check_begins_when_its_process_is_ready_and_its_context_there(pooled: Pooled, tmp_path: Path) -> None:
    pool, seen = pooled(), list[tuple[int, int, bool]]()

    def begun() -> None:
        log = (tmp_path / "asked").read_text()
        seen.append((len(pool.pids()), len(asked(tmp_path, "cmd")), '"cmd":"check"' in log))

    assert pool.check(replace(ANY, before=("open Nat",)), ["skip"], None, begun) is None
    assert seen == [(1, 1, False)]


def test_a_tactic_that_overruns_by_far_is_killed_and_is_a_timeout(pooled: Pooled) -> None:
    session, start = (pool := pooled()).open(ANY)
    before, begun = pool.pids(), time.monotonic()
    answer = session.run_tac(start, "sleep 60", 0.1)
    assert isinstance(answer, LeanError)
    assert answer.kind == "timeout"
    assert time.monotonic() - begun < 10
    assert isinstance(session.run_tac(start, "skip", 60), TacticState)
    assert pool.pids() != before


def test_a_session_that_waits_for_its_turn_is_interrupted(pooled: Pooled) -> None:
    pool, stop = pooled(), threading.Event()
    (busy, one), (waits, two) = pool.open(ANY), pool.open(ANY, stop)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(busy.run_tac, one, "sleep 2", 9)
        second = threads.submit(waits.run_tac, two, "skip", 9)
        stop.set()
        with pytest.raises(Interrupted):
            second.result(timeout=1.5)
        assert isinstance(first.result(), TacticState)


def test_a_cancelled_attempt_ends_in_the_middle_of_a_tactic(pooled: Pooled, tmp_path: Path) -> None:
    pool = pooled()

    async def cancelled() -> float:
        attempt = asyncio.create_task(micro.worker_on(pool)(Goal("a", "hang"), 60))
        while not (tmp_path / "asked").exists() or not asked(tmp_path, "tac"):
            await asyncio.sleep(0.01)
        attempt.cancel()
        begun = time.monotonic()
        await asyncio.wait({attempt})
        assert attempt.cancelled()
        return time.monotonic() - begun

    assert asyncio.run(cancelled()) < 3  # half a second, but for what else the machine does
    assert pool.pids() == []


def test_turns_are_taken_in_the_order_of_asking() -> None:
    """A plain lock is had again and again by whoever just had it."""
    turns, log, together = FairLock(), [], threading.Barrier(3)

    def take(name: int) -> None:
        together.wait()
        for _ in range(100):
            with turns.hold():
                log.append(name)
                time.sleep(0.0005)  # as one waits for an answer

    with ThreadPoolExecutor(3) as threads:
        [*threads.map(take, range(3))]
    assert min(log[:200].count(name) for name in range(3)) > 50


def test_when_the_build_stops_it_is_not_the_tactic_that_failed(pooled: Pooled, processes: Processes) -> None:
    session, start = pooled().open(ANY)
    with ThreadPoolExecutor() as threads:
        under_way = threads.submit(session.run_tac, start, "sleep 30", 60)
        processes.stop()
        with pytest.raises(BuildStopping):
            under_way.result()


def test_a_closed_pool_starts_nothing(pooled: Pooled) -> None:
    session, start = (pool := pooled()).open(ANY)
    pool.close()
    assert pool.pids() == []
    with pytest.raises(LeanStartError, match="closed"):
        session.run_tac(start, "skip", 60)


def test_heavy_attempts_hold_up_nobody_for_long(pooled: Pooled) -> None:
    """Eight light ones and two heavy ones, over two processes."""
    pool = pooled(2)

    def attempt(tactic: str, count: int) -> float:
        session, state = pool.open(ANY)
        for _ in range(count):
            answer = session.run_tac(state, tactic, 30)
            assert isinstance(answer, TacticState)
            state = answer
        session.close()
        return time.monotonic()

    for session, _ in [pool.open(ANY) for _ in range(2)]:
        session.close()
    with ThreadPoolExecutor(10) as threads:
        slow = [threads.submit(attempt, "sleep 0.2", 15) for _ in range(2)]
        quick = [threads.submit(attempt, "skip", 4) for _ in range(8)]
        assert max(each.result() for each in quick) < min(each.result() for each in slow)
    assert len(pool.pids()) == 2


def test_a_whole_proof_is_checked_where_no_tactic_was_tried(pool: Pool) -> None:
    session, _ = pool.open(SWAP)
    before = pool.pids()
    assert pool.check(SWAP, ["intro p q h", "constructor", "· exact h.2", "· exact h.1"]) is None
    (own,) = {*pool.pids()} - {*before}
    wrong = {
        "tactic": (SWAP, ["intro p q h", "exact h"]),
        "sorry": (SWAP, ["intro p q h", "sorry"]),
        "elab": (Theorem("a", "1 = true"), ["rfl"]),
    }
    for kind, (theorem, script) in wrong.items():
        answer = pool.check(theorem, script)
        assert isinstance(answer, LeanError)
        assert answer.kind == kind
    assert {*pool.pids()} == {*before, own}
    session.close()


def test_nothing_stays_behind_when_we_are_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from kit.leaning import command
from pipeline.lean.model import Theorem
from pipeline.lean.repl.pool import Pool
from pipeline.machine.process import Processes
pool = Pool(command(), Processes(["lean"]))
session = pool.open(Theorem("a", "True"))
print(*pool.pids(), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout
        leans = [psutil.Process(int(pid)) for pid in ours.stdout.readline().split()]
        assert all(lean.is_running() for lean in leans)
        ours.kill()
        _, alive = psutil.wait_procs(leans, timeout=30)
        assert (len(leans), alive) == (1, [])
