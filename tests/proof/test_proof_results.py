"""What a search came to: counts, pass@k, time to proof, rows for a sweep, and a file of proofs."""

import csv
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.browsing import Seen
from kit.proof_searches import goal

from pipeline.goals.bank import Bank, Goal, Refusal, theorem_of
from pipeline.goals.lean_files import Proof, lean_file, lean_files_in_one, stays_inside
from pipeline.lean.backends.table import proof_fault
from pipeline.lean.model import LeanError, Session, Stop, TacticState, Theorem
from pipeline.proof.records import PROVED, AttemptRecord, Sample, SampleRecord, SearchRecord
from pipeline.proof.report import (
    pass_at_k,
    proofs_of,
    results_csv,
    results_headline,
    results_page,
    results_record,
    sorted_quantile,
    with_check_results,
)
from pipeline.proof.run.attempt import FinishedAttempt
from pipeline.proof.schedule.records import EXHAUSTED, FRONTIER, LIGHT, SOLVED, GoalOutcome, Trial, WorkerResult
from pipeline.proof.search_stage import sample_record

SEARCH = SearchRecord(
    timestamp="20261119-010203", started="20261119-010153", seconds=9.5, stopped="", samples=1, toolchain="lean 4.28",
    strategies=("micro", "sketch"),
    config={"timeout": 120, "max_heavy": 2, "max_light": 8, "cpu_target": 0.5, "profile": 1},
)  # fmt: skip
BANK = Bank((), (Refusal(3, "", "false"),))


def record(name: str, status: str, *attempts: tuple[str, bool], sample: int = 0, seconds: float = 1.0) -> SampleRecord:
    won = status == PROVED
    goal = Goal(name, "1 + 1 = 2", difficulty=0.3, metadata={"category": "nat"}, line=1)
    return SampleRecord(
        of=Sample(goal, sample), status=status, strategy="micro" if won else "", level=0,
        tactics=("rfl",) if won else (), seconds=seconds,
        attempts=tuple(AttemptRecord(strategy, 0, 8.0, ok, 1.0, "", recalled=False) for strategy, ok in attempts),
        why="" if won else "nothing more to try",
    )  # fmt: skip


def changed(of: SampleRecord, goal: dict[str, Any], **fields: Any) -> SampleRecord:
    return of._replace(of=Sample(replace(of.of.goal, **goal), of.of.number), **fields)


FOUND = [
    record("a", "proved", ("micro", False), ("micro", True), seconds=2.0),
    record("b", "open", ("micro", False), ("sketch", False)),
    record("c", "frontier"),
    record("d-1", "proved", ("micro", True), seconds=0.5),
]


def test_results_have_the_documented_format() -> None:
    found = results_record(BANK, SEARCH, FOUND, [1])
    documented = ["timestamp", "goals_total", "goals_processed", "goals_solved", "strategies", "config"]
    assert [*found][:6] == documented
    assert [found[name] for name in documented] == [
        "20261119-010203", 4, 3, 2,
        {"micro": {"used": 4, "succeeded": 2}, "sketch": {"used": 1, "succeeded": 0}}, SEARCH.config,
    ]  # fmt: skip
    assert found["pass_at"] == {"1": 0.5}
    assert found["time_to_proof"] == {"p50": 0.5, "p90": 2.0, "p100": 2.0}
    assert found["goals_refused"] == 1
    assert [(goal["id"], goal["solved"], goal["seconds"]) for goal in found["goals"]] == [
        ("a", True, 2.0), ("b", False, None), ("c", False, None), ("d-1", True, 0.5),
    ]  # fmt: skip


def test_seconds_are_those_of_the_attempts_until_the_proof() -> None:
    """One that was cancelled for it may have ended just then, and is told too."""
    ended = [(1, False, 1.0), (3, True, 2.0), (2, False, 4.0)]
    trials = {number: Trial(number, "g0", f"s{number}", 0, 8.0, LIGHT) for number, *_ in ended}
    tried = [
        FinishedAttempt(trials[n], WorkerResult(success, f"s{n}", ("rfl",), seconds), False)
        for n, success, seconds in ended
    ]
    told = sample_record(Sample(goal(0), 0), GoalOutcome(goal(0), SOLVED, 0, 3, trials[3]), tried)
    assert (told.seconds, told.strategy, told.tactics, len(told.attempts)) == (3.0, "s3", ("rfl",), 3)
    left = sample_record(Sample(goal(0), 0), GoalOutcome(goal(0), EXHAUSTED, 0, 3), tried)
    assert (left.seconds, left.tactics, left.status) == (7.0, (), "open")
    never = sample_record(Sample(goal(0), 0), GoalOutcome(goal(0), FRONTIER, 0, 0), [])
    assert (never.status, never.why) == ("frontier", "never tried")


def test_a_goal_is_processed_when_all_of_its_samples_are() -> None:
    samples = [record("a", "open"), record("a", "frontier", sample=1), record("b", "open"), record("b", "open")]
    assert results_record(BANK, SEARCH, samples, [1])["goals_processed"] == 1


def test_a_proof_that_fails_the_last_check_is_none() -> None:
    found = with_check_results(FOUND, {"a": "axioms: sorryAx", "d-1": ""})
    assert [each.status for each in found] == ["open", "open", "frontier", "proved"]
    assert found[0].why == "not verified: axioms: sorryAx"
    assert results_record(BANK, SEARCH, found, [1])["strategies"]["micro"] == {"used": 4, "succeeded": 1}


class Failing:
    """A Lean that says these of a script, one after the other."""

    version = "lean 1"

    def __init__(self, *kinds: str) -> None:
        self.kinds = [*kinds]

    def open(self, theorem: Theorem, stop: Stop | None = None) -> tuple[Session, TacticState]:
        raise NotImplementedError

    def check(self, _theorem: Theorem, _script: Sequence[str], _stop: Stop | None = None) -> LeanError | None:
        kind = self.kinds.pop(0)
        return LeanError("so it is", kind) if kind else None

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("kinds", "why"),
    [
        ([""], ""),
        (["crash", ""], ""),
        (["timeout", ""], ""),
        (["crash", "timeout"], "timeout: so it is"),
        (["axioms"], "axioms: so it is"),
    ],
)
def test_the_last_check_is_made_again_where_a_process_came_to_its_end(kinds: list[str], why: str) -> None:
    lean = Failing(*kinds)
    assert proof_fault(lean, theorem_of(goal(0)), ["rfl"]) == why
    assert not lean.kinds


def test_mistakes_in_workers_are_told_once_each() -> None:
    attempt = AttemptRecord("micro", 0, 8.0, False, 1.0, "ValueError: no such state", recalled=False, raised=True)
    found = results_record(BANK, SEARCH, [*FOUND, changed(FOUND[1], {"id": "e"}, attempts=(attempt, attempt))], [1])
    assert found["raised"] == ["ValueError: no such state"]
    assert "mistakes in their workers: ValueError: no such state" in results_headline(found)
    assert "mistakes" not in results_headline(results_record(BANK, SEARCH, FOUND, [1]))


def test_nothing_in_the_bank_is_no_division_by_zero() -> None:
    found = results_record(BANK, SEARCH, [], [1])
    assert (found["goals_total"], found["pass_at"], found["time_to_proof"]["p50"]) == (0, {"1": None}, None)


def test_a_record_of_a_sample_is_read_as_it_was_written() -> None:
    assert [SampleRecord.from_json(json.loads(json.dumps(each.as_json()))) for each in FOUND] == FOUND


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_samples_with_a_proof(
    proved: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(proved)))
    samples = [record("g", "proved" if each else "open", sample=n) for n, each in enumerate(proved)]
    choices = [*itertools.combinations(proved, k)]
    expected = sum(any(choice) for choice in choices) / len(choices)
    found = pass_at_k([samples], k)
    assert found is not None
    assert abs(found - expected) < 1e-6


@given(st.lists(st.integers(0, 5), min_size=1).map(sorted), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_quantile_is_one_of_the_times_and_enough_are_below_it(times: list[int], part: float) -> None:
    found = sorted_quantile(times, part)
    assert found in times
    assert sum(time <= found for time in times) >= part * len(times)
    assert not [time for time in times if time < found and sum(t <= time for t in times) >= part * len(times)]


def test_the_table_has_a_row_for_each_sample_that_a_sweep_can_read() -> None:
    rows = [*csv.DictReader(io.StringIO(results_csv([*FOUND, record("a", "open", sample=1)])))]
    assert [row["config_id"] for row in rows] == ["0", "1", "2", "3", "0"]
    assert [row["status"] for row in rows] == ["ok", "ok", "not tried to the end", "ok", "ok"]
    assert [row["solved"] for row in rows] == ["1", "0", "0", "1", "0"]
    assert rows[0]["category"] == "nat"


def test_what_a_bank_says_of_a_goal_is_no_result_of_it() -> None:
    odd = {"seconds": 0, "solved": 1, "level": "hard", "goal": "z", "topic": "order"}
    [row] = csv.DictReader(io.StringIO(results_csv([changed(FOUND[1], {"metadata": odd})])))
    found = [row[name] for name in ("goal", "seconds", "solved", "level", "category", "topic")]
    assert found == ["b", "1.0", "0", "0", "", "order"]


def test_a_comment_at_the_end_of_a_statement_ends_with_its_line() -> None:
    proof = changed(FOUND[3], {"text": "1 + 1 = 2 -- easy"})
    text = lean_files_in_one(proofs_of([proof]), ["Lean"])
    assert text.endswith("\ntheorem «proof of d-1» : 1 + 1 = 2 -- easy\n  := by\n  rfl\n")


def test_the_proofs_are_a_lean_file_with_context_kept_apart() -> None:
    tactics = ("intro n", "cases n with\n| zero => rfl\n| succ n => rfl")
    last = changed(FOUND[3], {"context": ("open Nat",)}, tactics=tactics)
    assert lean_files_in_one(proofs_of([*FOUND[:3], last]), ["Lean", "Ours"]).split("\n") == [
        "import Lean", "import Ours", "set_option maxRecDepth 1000", "set_option autoImplicit true",
        "set_option relaxedAutoImplicit false", "",
        "-- a: micro, 2 s", "theorem «proof of a» : 1 + 1 = 2 := by", "  rfl", "",
        "-- d-1: micro, 0.5 s", "namespace «context of d-1»", "open Nat",
        "theorem «proof of d-1» : 1 + 1 = 2 := by", "  intro n", "  cases n with",
        "  | zero => rfl", "  | succ n => rfl", "end «context of d-1»", "",
    ]  # fmt: skip


def test_imports_of_a_context_come_first_in_a_file_of_its_own() -> None:
    theorem = Theorem("goal", "1 = 1", ("import Mathlib", "open Real"))
    lines = lean_file(Proof("one", theorem, ["rfl"]), []).split("\n")
    assert (lines[0], lines[-5:]) == (
        "import Mathlib",
        ["", "open Real", "theorem «proof of one» : 1 = 1 := by", "  rfl", ""],
    )


STAYING = (["open Nat"], ["variable (n : Nat)", "universe u"], ["def f := 1"], ["inductive T | a", "def T.f := 1"])
LEAVING = (
    ["instance : Inhabited Nat := ⟨5⟩"], ['notation "A" => 1'], ['infixr:5 "+" => f'], ["namespace A"], ["section"],
    ["@[simp] theorem t : 1 = 1 := rfl"], ["attribute [simp] f"], ["def Nat.twice := 1"], ["def _root_.f := 1"],
    ["class C (α : Type)"], ["deriving instance DecidableEq for T"], ["import M"],
)  # fmt: skip


@pytest.mark.parametrize(
    ("before", "stays"), [*((each, True) for each in STAYING), *((each, False) for each in LEAVING)]
)
def test_what_a_context_leaves_behind_is_known(before: list[str], stays: bool) -> None:
    assert stays_inside(before) == stays


def test_the_page_has_all_goals_and_needs_nothing_from_outside() -> None:
    hostile = record("<b>&amp;", "open", ("micro", False))._replace(why="<script>alert(1)</script>")
    refused = Bank((), (Refusal(7, "odd", "it is false, by `decide`"),))
    found = [*FOUND, hostile]
    seen = Seen(results_page("lean-bank", results_record(refused, SEARCH, found, [1]), refused, found))
    assert not seen.open
    assert not {"script", "b", "link", "img"} & {*seen.tags}
    assert not {"src", "href"} & {*seen.attributes}
    assert "lean-bank: 2 of 5 goals proved" in seen.words
    assert all(word in seen.words for word in ("d-1", "rfl", "<script>alert(1)</script>", "<b>&amp;", "it is false"))
    assert seen.tags.count("details") == 5


def test_the_page_of_a_bank_without_a_proof_has_no_curve() -> None:
    found = [record("b", "open", ("micro", False))]
    assert "svg" not in Seen(results_page("x", results_record(Bank(), SEARCH, found, [1]), Bank(), found)).tags
