"""What a build says of the rows of a bank, without a Lean."""

from pathlib import Path

import pytest

from pipeline.core.graph import Target, path_of_port
from pipeline.core.outcome import BUILT, FRESH, Outcome
from pipeline.mcts.follow import MctsFollower
from pipeline.mcts.plan import ROW_INDEX
from pipeline.store.records import Record, save

ODD = {"refused": "it is false, by `decide`; mend it, or drop it"}
ONE = {"key": "k", "text": "1 = 1", "context": []}
GOALS: dict[str, Record] = {"one": ONE, "odd": ODD}
LEAN = {"limits": {"lean": {"backend": "wasm", "project": ""}}}
ROWS = Target("x:rows", "rows", (("bank", ("bank.jsonl",)),), ((ROW_INDEX, ("rows.json",)),), {})
MALFORMED = {"line": 2, "id": "bad", "why": "it has no goal"}


def goal(name: str) -> Target:
    return Target(f"x:goal.{name}", "goal", (), (("goal.json", (f"{name}.json",)),), LEAN)


def said(place: Path, rows: str, goals: str, lines: dict[str, int], found: dict[str, Record] = GOALS) -> list[str]:
    """At the end of a build in which rows and goals came out so."""
    save(str(place / "rows.json"), {"refused": [MALFORMED], "lines": lines})
    targets = [goal(name) for name in found]
    for target, record in zip(targets, found.values(), strict=True):
        save(path_of_port(target, "goal.json"), record)
    follower = MctsFollower("x", [ROWS, *targets], [])
    follower.target_ended(ROWS, Outcome(rows))
    for target in targets:
        follower.target_ended(target, Outcome(goals))
    return follower.finish(False).splitlines()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_rows_that_do_not_count_are_told_with_their_lines(place: Path) -> None:
    assert said(place, BUILT, BUILT, {"one": 3, "odd": 1}) == [
        "2 rows of the bank not counted:",
        f"  bank.jsonl:1: odd: {ODD['refused']}",
        "  bank.jsonl:2: bad: it has no goal",
    ]


def test_of_a_bank_that_is_as_it_was_only_goals_that_were_looked_at_are_told(place: Path) -> None:
    assert said(place, FRESH, BUILT, {"one": 3, "odd": 1})[1:] == [f"  bank.jsonl:1: odd: {ODD['refused']}"]
    assert said(place, BUILT, FRESH, {"one": 3, "odd": 1})[1:] == ["  bank.jsonl:2: bad: it has no goal"]
    assert not said(place, FRESH, FRESH, {"one": 3, "odd": 1})


def test_of_equal_statements_the_first_row_counts(place: Path) -> None:
    same: dict[str, Record] = {"one": ONE, "two": ONE}
    assert said(place, FRESH, BUILT, {"one": 4, "two": 3}, same)[1:] == [
        "  bank.jsonl:4: one: it is the statement of line 3 (two); drop one of them"
    ]


def test_a_row_that_may_not_say_what_it_seems_to_is_warned_of_with_its_line(place: Path) -> None:
    found: dict[str, Record] = {"one": {**ONE, "text": "∀ x : ℝ, x = x"}}
    (head, warning) = said(place, FRESH, BUILT, {"one": 7}, found)
    assert head == "1 warning about what the bank says:"
    assert warning.startswith("  bank.jsonl:7: one: `ℝ` is no notation without Mathlib")
    assert not said(place, FRESH, FRESH, {"one": 7}, found)
