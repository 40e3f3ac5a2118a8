"""A search can be done again from its journal, and goes on from any line of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proof_searches import Case, cases, goal, played, rules

from pipeline.edge.lines import Lines
from pipeline.proof.journal import AGAIN, Journalled
from pipeline.proof.replaying import Diverged, in_flight, replay, resumed
from pipeline.proof.trials import FAILED, Outcome


@given(cases(stops=True))
def test_a_journal_replays_to_the_same_bytes(case: Case) -> None:
    lines = played(case).lines
    assert replay(lines, case.rules) == []
    assert replay(lines) == []


@given(cases(stops=True), st.data())
def test_a_search_goes_on_from_any_line_as_if_it_had_not_been_stopped(case: Case, data: st.DataObject) -> None:
    run = played(case)
    cut = data.draw(st.integers(1, len(run.lines)))
    new: list[str] = []
    again = resumed(run.lines[:cut], new.append, case.rules)
    for line in run.lines[cut:]:
        fields = json.loads(line)
        AGAIN[fields["what"]](again, fields)
    assert new == run.lines[cut:]
    assert again.schedule.standings() == run.journalled.schedule.standings()
    assert again.schedule.bandit.learned() == run.journalled.schedule.bandit.learned()


@given(cases(), st.data())
def test_trials_without_an_outcome_are_those_to_be_started_again(case: Case, data: st.DataObject) -> None:
    lines = played(case).lines[: data.draw(st.integers(1, 40))]
    told = [json.loads(line) for line in lines]
    asked = {each["trial"]["number"] for each in told if each["what"] == "ask"}
    ended = {each["outcome"]["trial"] for each in told if each["what"] == "tell"}
    assert {trial.number for trial in in_flight(resumed(lines, lambda _: None))} == asked - ended


def a_journal() -> list[str]:
    lines: list[str] = []
    search = Journalled(rules("a", "b", levels=1, cpu_target=0.5), lines.append)
    for number in range(2):
        search.add(goal(number))
    search.load(1.5)
    while trial := search.ask(1):
        search.tell(Outcome(trial.number, FAILED, 0.25, "no ⊢"))
        search.load(2.5)
    return lines


def test_a_line_is_json_with_sorted_keys() -> None:
    for line in a_journal():
        assert line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"strategy":"a"', '"strategy":"b"'),
        ('"status":"failed"', '"status":"proved"'),
        ('"reading":1.5', '"reading":1.6'),
        ('"sleep":0', '"sleep":1'),
        ('"what":"tell"', '"what":"other"'),
        ('"trial":1', '"trial":7'),
        ('"speculate":3', '"speculate":1'),
        ('{"free":1', '{"free":1,'),
    ],
)
def test_an_edited_journal_differs_and_the_line_is_named(old: str, new: str) -> None:
    lines = a_journal()
    number = next(n for n, line in enumerate(lines) if old in line)
    edited = [*lines[:number], lines[number].replace(old, new, 1), *lines[number + 1 :]]
    [difference] = replay(edited, rules("a", "b", levels=1, cpu_target=0.5))
    assert difference.line > number
    with pytest.raises(Diverged, match=f"line {difference.line}"):
        resumed(edited, lambda _: None, rules("a", "b", levels=1, cpu_target=0.5))


def test_other_rules_differ_in_the_first_line() -> None:
    assert [each.line for each in replay(a_journal(), rules("a"))] == [1]
    assert [each.line for each in replay([], rules("a"))] == [1]


@pytest.mark.parametrize(
    ("old", "new"), [("{", "{,"), ('"version":1', '"version":2'), ('"bandit":', '"beast":'), ('"rules":', '"laws":')]
)
def test_a_first_line_that_cannot_be_read_differs_too(old: str, new: str) -> None:
    first, *rest = a_journal()
    assert [each.line for each in replay([first.replace(old, new, 1), *rest])] == [1]


def test_a_line_that_is_missing_is_noticed() -> None:
    lines = a_journal()
    for number in range(1, len(lines) - 1):
        assert replay([*lines[:number], *lines[number + 1 :]])


def test_a_torn_last_line_is_cut_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = a_journal()
    whole = "".join(f"{line}\n" for line in lines).encode()
    for torn in (b"", b"{", lines[-1].encode()[:-1], "⊢".encode()[:1]):
        path.write_bytes(whole + torn)
        kept = Lines(str(path))
        assert kept.found == lines
        kept.append("more")
        kept.close()
        assert path.read_bytes() == whole + b"more\n"


def test_a_new_journal_has_no_lines(tmp_path: Path) -> None:
    lines = Lines(str(tmp_path / "new"))
    assert lines.found == []
    lines.append("⊢")
    assert (tmp_path / "new").read_text() == "⊢\n"  # before any sync
    lines.close()
