"""The ledger: attempts are kept once, goals nobody tried are open, and no file of somebody else's is touched."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from kit.project import environment

from pipeline.goals.attempts import Attempt, AttemptKey
from pipeline.goals.bank import Goal
from pipeline.store import ledger as ledger_file
from pipeline.store.ledger import Ledger, LedgerProblem, LedgerReader


def attempt(goal: str = "g", success: bool = False, *, budget: float = 8.0, **more: object) -> Attempt:
    strategy, seconds = str(more.pop("strategy", "micro")), float(str(more.pop("time_seconds", 0.5)))
    key = AttemptKey(goal, strategy, "c", str(more.pop("toolchain", "lean")), budget)
    more = {"tactics": ("intro h", "omega") if success else (), **more}
    return Attempt(key, f"text of {goal}", success, seconds, 1e9, verified=success, **more)  # type: ignore[arg-type]


def goal(key: str, text: str, **more: float) -> Goal:
    return Goal(key, text, key=key, **more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / ".ledger/ledger.db")


@pytest.fixture
def ledger(path: str) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


def test_an_attempt_comes_back_as_it_was_recorded(ledger: Ledger) -> None:
    made = attempt(success=True, error="", subgoals=("p", "q"), metadata={"nodes": 3}, run="lean-bank")
    ledger.record(made).result()
    assert ledger.recall(made.key) == made
    assert ledger.attempts_by_key("lean") == {made.key: made}
    assert ledger.attempts_on_goal("g") == [made]


def test_another_strategy_budget_config_or_toolchain_is_another_attempt(ledger: Ledger) -> None:
    key = attempt().key
    ledger.record(attempt()).result()
    others = [
        key._replace(strategy="sketch"), key._replace(budget=9.0), key._replace(config="d"),
        key._replace(toolchain="lean2"), key._replace(goal_hash="h"),
    ]  # fmt: skip
    assert [ledger.recall(other) for other in others] == [None] * 5


def test_the_same_attempt_is_kept_once_and_a_proof_is_not_lost_to_a_failure(ledger: Ledger) -> None:
    proof, failure = attempt(success=True, subgoals=("p",), run="b"), attempt(run="a")
    for each in (failure, proof, failure):
        ledger.record(each).result()
    assert ledger.recall(proof.key) == proof
    assert ledger.stats().attempts == 1


def test_what_programs_print_can_be_kept_whatever_is_in_it(ledger: Ledger) -> None:
    ledger.record(attempt(error="bad \udcff byte, \0, ∀ε")).result()
    found = ledger.recall(attempt().key)
    assert found
    assert found.error == "bad \\udcff byte, \0, ∀ε"


def test_goals_that_were_never_tried_are_in_the_frontier_and_come_first(ledger: Ledger) -> None:
    ledger.add_goals([goal(name, f"text of {name}", priority=p) for name, p in zip("abcd", (0, 1, 0, 1), strict=True)])
    for each in (attempt("a", True), attempt("b", budget=8), attempt("b", budget=32), attempt("c", budget=8)):
        ledger.record(each)
    ledger.flush()
    assert [(it.goal.key, it.attempts, it.budget) for it in ledger.frontier()] == [
        ("d", 0, 0), ("c", 1, 8), ("b", 2, 32),
    ]  # fmt: skip


def test_who_says_how_urgent_a_goal_is_says_it_of_one_that_is_known_too(ledger: Ledger) -> None:
    ledger.add_goals([goal("g", "text")], renew=False)
    ledger.add_goals([goal("g", "text", difficulty=0.9, priority=1.0)])
    ledger.add_goals([goal("g", "text")], renew=False).result()
    [found] = ledger.frontier()
    assert (found.goal.difficulty, found.goal.priority) == (0.9, 1.0)


def test_a_proof_that_was_not_verified_leaves_its_goal_open(ledger: Ledger) -> None:
    ledger.add_goals([goal("g", "text")])
    claimed = attempt(success=True)
    ledger.record(Attempt(claimed.key, "text", True, 1.0, 1e9, ("omega",), verified=False)).result()
    assert [it.goal.key for it in ledger.frontier()] == ["g"]
    assert ledger.get_cached_tactics("g") is None


def test_a_proof_that_is_refused_later_leaves_its_goal_open(ledger: Ledger) -> None:
    ledger.add_goals([goal("g", "text"), goal("h", "text")])
    proof = attempt("g", True)
    for each in (proof, attempt("h", True)):
        ledger.record(each).result()
    ledger.refuse("g", proof.key.toolchain, ["another"], "it is another's").result()
    ledger.refuse("g", "another Lean", proof.tactics, "it is another's").result()
    assert ledger.frontier() == []
    ledger.refuse("g", proof.key.toolchain, proof.tactics, "axioms: sorryAx").result()
    assert [it.goal.key for it in ledger.frontier()] == ["g"]
    assert ledger.stats().proved == 1
    kept, cached = ledger.recall(proof.key), ledger.get_cached_tactics("g")
    assert kept
    assert (kept.success, kept.verified, kept.error) == (True, False, "axioms: sorryAx")
    assert cached
    assert cached.success_rate == 0


def test_tactics_that_proved_are_cached_and_rated_by_how_often_they_hold_again(ledger: Ledger) -> None:
    ledger.record(attempt(success=True, time_seconds=2.0)).result()
    first = ledger.get_cached_tactics("g")
    assert first
    assert (first.tactics, first.success_rate, first.avg_time, first.use_count) == (("intro h", "omega"), 1.0, 2.0, 1)
    ledger.used_cached_tactics("g", held=False, seconds=1.0).result()
    rated = ledger.get_cached_tactics("g")
    assert rated
    assert (rated.success_rate, rated.avg_time, rated.use_count) == (0.5, 1.5, 2)


def test_a_new_proof_replaces_cached_tactics_that_stopped_to_hold(ledger: Ledger) -> None:
    for name in "gh":
        ledger.record(attempt(name, True, tactics=("simp",)))
        ledger.used_cached_tactics(name, held=name == "h", seconds=1.0)
        ledger.record(attempt(name, True, budget=16.0))
    ledger.flush()
    kept = [ledger.get_cached_tactics(name) for name in "gh"]
    assert [it and it.tactics for it in kept] == [("intro h", "omega"), ("simp",)]


def test_premises_are_kept_for_each_model(ledger: Ledger) -> None:
    ledger.update_premise_cache("g", "byt5", ["Nat.add_comm", "Nat.le_refl"]).result()
    assert ledger.get_cached_premises("g", "byt5") == ("Nat.add_comm", "Nat.le_refl")
    assert ledger.get_cached_premises("g", "minilm") is None


def test_statistics_count_goals_attempts_and_each_strategy(ledger: Ledger) -> None:
    ledger.add_goals([goal(name, "text") for name in "abc"])
    for each in (attempt("a", True, time_seconds=1.0), attempt("b", time_seconds=3.0), attempt("b", strategy="sketch")):
        ledger.record(each)
    ledger.flush()
    stats = ledger.stats()
    assert (stats.goals, stats.proved, stats.frontier, stats.untried) == (3, 1, 2, 1)
    assert (stats.attempts, stats.cached_tactics) == (3, 1)
    assert [(s.strategy, s.attempts, s.successes, s.avg_time) for s in stats.strategies] == [
        ("micro", 2, 1, 2.0), ("sketch", 1, 0, 0.5),
    ]  # fmt: skip


def test_the_documented_questions_can_be_asked_with_any_sqlite(ledger: Ledger, path: str) -> None:
    ledger.record(attempt()).result()
    with closing(sqlite3.connect(path)) as db:
        by_strategy = "SELECT strategy, COUNT(*), SUM(success), AVG(time_seconds) FROM attempts GROUP BY strategy"
        assert db.execute(by_strategy).fetchall() == [("micro", 1, 0, 0.5)]
        recent = "SELECT goal_hash, goal_text FROM attempts ORDER BY timestamp DESC LIMIT 10"
        assert db.execute(recent).fetchall() == [("g", "text of g")]
        assert db.execute("SELECT * FROM tactic_cache ORDER BY use_count DESC LIMIT 10").fetchall() == []


def test_many_read_while_one_writes(ledger: Ledger, path: str) -> None:
    faults: list[BaseException] = []
    total = 400

    def read() -> None:
        seen = 0
        try:
            with closing(LedgerReader(path)) as reader:
                while seen < total:
                    now = reader.stats().attempts
                    assert now >= seen
                    seen = now
        except BaseException as error:  # noqa: BLE001 - raised by the test
            faults.append(error)

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(total):
        ledger.record(attempt(str(n)))
    ledger.flush()
    for thread in threads:
        thread.join(30)
    assert not faults
    assert ledger.stats().attempts == total


def test_two_processes_may_write_to_one_ledger(ledger: Ledger, path: str) -> None:
    program = (
        "import sys; from pipeline.store.ledger import Ledger; from pipeline.goals.attempts import *\n"
        "with Ledger(sys.argv[1]) as ledger:\n"
        "    for n in range(300):\n"
        "        ledger.record(Attempt(AttemptKey(f'o{n}', 'micro', 'c', 'lean', 8.0), 't', False, .1, 1e9)).result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], env=environment({})) as other:
        while other.poll() is None:
            ledger.record(attempt(f"ours {time.time_ns()}")).result()
        assert other.returncode == 0
    assert (
        len([key for key in ledger.attempts_by_key("lean") if key.goal_hash[0] == "o" and key.goal_hash[1].isdigit()])
        == 300
    )


def test_what_is_handed_in_is_saved_within_a_second_though_nobody_waits(ledger: Ledger, path: str) -> None:
    saved = [ledger.record(attempt(str(n))) for n in range(100)]
    assert not wait(saved, timeout=1.0).not_done
    with closing(LedgerReader(path)) as reader:
        assert reader.stats().attempts == 100


def test_nothing_that_was_handed_in_is_lost_when_the_ledger_is_closed(path: str) -> None:
    with Ledger(path) as ledger:
        for n in range(50):
            ledger.record(attempt(str(n)))
    with closing(LedgerReader(path)) as reader:
        assert reader.stats().attempts == 50
    with pytest.raises(LedgerProblem, match="closed"):
        ledger.record(attempt())


def test_a_caller_that_goes_away_takes_nothing_with_it(ledger: Ledger) -> None:
    saved = ledger.record(attempt())
    assert not saved.cancel()
    ledger.flush()
    assert ledger.recall(attempt().key)


def test_what_cannot_be_written_is_told_to_whom_it_is_and_the_next_is_written(ledger: Ledger) -> None:
    faulty = ledger.record(attempt(strategy="half a character: \ud800"))
    assert isinstance(faulty.exception(10), UnicodeEncodeError)
    ledger.record(attempt()).result(10)
    assert ledger.recall(attempt().key)


def wrong(path: str) -> str:
    with pytest.raises(LedgerProblem) as caught:
        Ledger(path)
    return str(caught.value)


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes, all about proofs\n" * 100)
    before = file.read_bytes()
    assert "damaged" in wrong(str(file))
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_somebody_else_s_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE attempts (goal_hash TEXT)")
        db.commit()
    before = file.read_bytes()
    assert "some other program" in wrong(str(file))
    assert file.read_bytes() == before


def test_a_newer_ledger_is_refused_and_left_as_it_is(ledger: Ledger, path: str) -> None:
    ledger.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {ledger_file.VERSION + 1}")
    assert "newer Coppice" in wrong(path)
    with pytest.raises(LedgerProblem, match="newer Coppice"):
        LedgerReader(path)


def test_a_damaged_ledger_is_refused_and_not_written_to(ledger: Ledger, path: str) -> None:
    for n in range(500):
        ledger.record(attempt(str(n)))
    ledger.close()
    content = bytearray(Path(path).read_bytes())
    content[8192:16384] = b"\xaa" * 8192
    Path(path).write_bytes(content)
    assert "damaged" in wrong(path)
    assert Path(path).read_bytes() == content


def test_a_ledger_of_nobody_yet_cannot_be_read(path: str) -> None:
    with pytest.raises(LedgerProblem, match="no such ledger"):
        LedgerReader(path)


def test_who_locks_the_ledger_for_too_long_is_named(ledger: Ledger, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.close()
    monkeypatch.setattr(ledger_file, "PATIENCE", 0.2)
    hold = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); db.execute('BEGIN IMMEDIATE')\n"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold, path], stdin=-1, stdout=-1) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with Ledger(path) as ours:
            fault = ours.record(attempt()).exception(10)
            who = f"process {holder.pid}" if os.path.exists("/proc/locks") else "another process"
            assert f"locked by {who}" in str(fault)
            assert isinstance(fault, LedgerProblem)
            holder.communicate()
            ours.record(attempt()).result()
            assert ours.recall(attempt().key)


def test_a_ledger_of_an_earlier_version_is_brought_up_to_date(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(path) as ledger:
        ledger.record(attempt()).result()
    monkeypatch.setattr(ledger_file, "MIGRATIONS", (*ledger_file.MIGRATIONS, "ALTER TABLE goals ADD COLUMN more TEXT"))
    monkeypatch.setattr(ledger_file, "VERSION", 2)
    with pytest.raises(LedgerProblem, match="older Coppice"):
        LedgerReader(path)
    with Ledger(path) as ledger:
        assert ledger.stats().attempts == 1
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert "more" in [row[1] for row in db.execute("PRAGMA table_info(goals)")]
