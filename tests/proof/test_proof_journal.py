"""A search can be decided again from its journal, and what was changed in it shows."""

import json

import pytest
from hypothesis import given
from kit.proof_searches import Case, cases, goal, played, rules

from pipeline.proof.schedule.journal import ScheduleJournal, replay_schedule
from pipeline.proof.schedule.records import FAILED, TrialOutcome


@given(cases(stops=True))
def test_a_journal_replays_to_the_same_bytes(case: Case) -> None:
    lines = played(case).lines
    assert replay_schedule(lines, case.rules) == []
    assert replay_schedule(lines) == []


def a_journal() -> list[str]:
    lines: list[str] = []
    search = ScheduleJournal(rules("a", "b", levels=1, cpu_target=0.5), lines.append)
    for number in range(2):
        search.add(goal(number))
    search.load(1.5)
    while trial := search.ask(1):
        search.tell(TrialOutcome(trial.number, FAILED, 0.25, "no ⊢"))
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
    [difference] = replay_schedule(edited, rules("a", "b", levels=1, cpu_target=0.5))
    assert difference.line > number


def test_other_rules_differ_in_the_first_line() -> None:
    assert [each.line for each in replay_schedule(a_journal(), rules("a"))] == [1]
    assert [each.line for each in replay_schedule([], rules("a"))] == [1]


@pytest.mark.parametrize(
    ("old", "new"), [("{", "{,"), ('"version":1', '"version":2'), ('"bandit":', '"beast":'), ('"rules":', '"laws":')]
)
def test_a_first_line_that_cannot_be_read_differs_too(old: str, new: str) -> None:
    first, *rest = a_journal()
    assert [each.line for each in replay_schedule([first.replace(old, new, 1), *rest])] == [1]


def test_a_line_that_is_missing_is_noticed() -> None:
    lines = a_journal()
    for number in range(1, len(lines) - 1):
        assert replay_schedule([*lines[:number], *lines[number + 1 :]])
