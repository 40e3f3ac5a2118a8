"""A search can be done again from its journal, goes on from any line of it, and its trace is as documented."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from kit.mcts_worlds import TIMES, World, carry_on, expansions, maths, played, rules, team, teams, text, worlds
from kit.project import ROOT

from pipeline.mcts.search import journal
from pipeline.mcts.search.agents import Block, Delay, Interventions
from pipeline.mcts.search.distributed import Team
from pipeline.mcts.search.journal import (
    REAL_TIME,
    REPLAY_STEPS,
    VIRTUAL_TIME,
    Diverged,
    replay_search,
    resume_journal,
    trace_of_journal,
)
from pipeline.mcts.search.records import ExpandOutcome, SearchRules, Subgoal, TacticAttempt, WeightedMove
from pipeline.mcts.search.trace import trace_line

SCHEMA = json.loads((ROOT / "pipeline" / "mcts" / "search" / "trace.schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)
CHAIN = World({f"g{n}": {"a": None, "b": (f"g{n + 1}",)} for n in range(4)} | {"g4": {"a": ()}}, told=frozenset({"g2"}))

blocks = st.builds(
    lambda fraction, duration, seed: Block(fraction, duration, seed, 0.5, 2, 0.1),
    st.sampled_from([0.0, 0.4]),
    st.sampled_from([-1, 3]),
    st.integers(0, 3),
)
delays = st.builds(Delay, st.sampled_from([0.0, 0.4]), st.integers(0, 3), st.integers(0, 3))
interventions = st.builds(Interventions, blocks, delays, st.integers(0, 2))
ones = st.builds(lambda by, expansion: rules(40, maths=by, expansion=expansion), maths(), expansions)
many = st.builds(lambda by, between: by._replace(interventions=between), teams(40), interventions)
any_rules: st.SearchStrategy[SearchRules | Team] = st.one_of(ones, many)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.integers(0, 99))
def test_a_journal_replays_to_the_same_bytes(world: World, by: SearchRules | Team, time: str, seed: int) -> None:
    run = played(world, by, Random(seed), time, units=3)
    assert replay_search(run.lines) == []
    assert trace_of_journal(run.lines) == [trace_line(told) for told in run.trace]


@given(worlds(), any_rules, st.sampled_from(TIMES), st.data())
def test_a_search_goes_on_from_any_line_as_if_it_had_not_been_stopped(
    world: World, by: SearchRules | Team, time: str, data: st.DataObject
) -> None:
    run = played(world, by, Random(1), time, units=3)
    cut = data.draw(st.integers(1, len(run.lines)))
    new: list[str] = []
    notes: list[dict[str, Any]] = []
    again = resume_journal(run.lines[:cut], new.append, lambda told: notes.append(dict(told)))
    for recorded in run.lines[cut:]:
        fields = json.loads(recorded)
        REPLAY_STEPS[fields["what"]](again, fields)
    assert new == run.lines[cut:]
    assert text(notes) == text(run.trace)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.data())
def test_a_search_that_was_killed_is_finished_when_what_was_under_way_is_tried_again(
    world: World, by: SearchRules | Team, time: str, data: st.DataObject
) -> None:
    run = played(world, by, Random(1), time, units=3)
    lines = run.lines[: data.draw(st.integers(1, len(run.lines)))]
    notes: list[dict[str, Any]] = []
    again = resume_journal(list(lines), lines.append, lambda told: notes.append(dict(told)))
    carry_on(world, again, again.policy.unanswered, Random(2), units=3)
    assert replay_search(lines) == []
    if time == VIRTUAL_TIME or not isinstance(by, Team):
        assert text(notes) == text(run.trace)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.data())
def test_what_has_no_answer_yet_is_known(world: World, by: SearchRules | Team, time: str, data: st.DataObject) -> None:
    lines = played(world, by, Random(1), time, units=3).lines
    lines = lines[: data.draw(st.integers(1, len(lines)))]
    told = [json.loads(each) for each in lines]
    asked = {each["expand"]["iteration"] for each in told if each["what"] == "ask" and each["expand"]}
    heard = {each["outcome"]["iteration"] for each in told if each["what"] == "tell"}
    ended = {json.loads(each)["iteration"] for each in trace_of_journal(lines)}  # aborted ones are not in the journal
    assert {each.iteration for each in resume_journal(lines, lines.append).policy.unanswered} == asked - heard - ended


def a_journal(by: SearchRules | Team, time: str = VIRTUAL_TIME) -> list[str]:
    return played(CHAIN, by, time=time).lines


def test_a_line_is_json_with_sorted_keys() -> None:
    for by in (rules(), team(rules(), 2)):
        for each in a_journal(by):
            assert each == json.dumps(json.loads(each), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"selection":"puct"', '"selection":"uct"'),
        ('"widen":1.0', '"widen":5.0'),
        ('"tactic":"b"}', '"tactic":"c"}'),
        ('"error":"tactic"', '"goals":[{"key":"g9"}]'),
        ('"path":[0,1]', '"path":[0]'),
        ('"version":2', '"version":3'),
        ('"what":"tell"', '"what":"hear"'),
        ('"n":4', '"n":5'),
        ('"n":4', '"n":4,'),
    ],
)
def test_an_edited_journal_differs_and_the_line_is_named(old: str, new: str) -> None:
    lines = a_journal(rules())
    number = next(n for n, each in enumerate(lines) if old in each)
    edited = [*lines[:number], lines[number].replace(old, new, 1), *lines[number + 1 :]]
    [difference] = replay_search(edited, lines[0])
    assert difference.line > number
    with pytest.raises(Diverged, match=f"line {difference.line}"):
        resume_journal(edited, edited.append, first=lines[0])


def test_a_line_that_is_missing_is_noticed() -> None:
    for by in (rules(), team(rules(), 2)):
        lines = a_journal(by)
        for number in range(1, len(lines) - 1):
            assert replay_search([*lines[:number], *lines[number + 1 :]])
    assert [each.line for each in replay_search([])] == [1]


def test_a_journal_of_another_version_is_refused() -> None:
    lines = a_journal(rules())
    with pytest.raises(Diverged, match="version 2; this is 1"):
        resume_journal([lines[0].replace('"version":1', '"version":2')], lines.append)


def test_a_mode_is_never_taken_for_the_other() -> None:
    one, two = a_journal(rules()), a_journal(team(rules()))
    assert [json.loads(each[0])["mode"] for each in (one, two)] == ["centralized", "distributed"]
    for lines, other in ((one, "distributed"), (two, "centralized")):
        with pytest.raises(Diverged, match="line 1: KeyError"):
            resume_journal([lines[0].replace(json.loads(lines[0])["mode"], other)], lines.append)


moves = st.builds(WeightedMove, st.text(max_size=2), st.sampled_from([1.0, 0.25]))
goals = st.builds(
    Subgoal,
    st.text(max_size=3),
    st.text(max_size=3),
    st.sampled_from([0.5, 0.25]),
    st.one_of(st.none(), st.lists(moves, max_size=2).map(tuple)),
)
attempts = st.builds(
    TacticAttempt, st.text(max_size=3), st.lists(goals, max_size=2).map(tuple), st.sampled_from(["", "no"])
)
outcomes = st.builds(
    ExpandOutcome,
    st.integers(1, 9),
    st.lists(attempts, max_size=2).map(tuple),
    st.just(()),
    st.booleans(),
    st.just(2.0),
)


@given(outcomes, any_rules)
def test_what_is_written_is_read_as_it_was(outcome: ExpandOutcome, by: SearchRules | Team) -> None:
    assert journal.outcome_from_json(json.loads(json.dumps(journal.outcome_as_json(outcome)))) == outcome
    if isinstance(by, Team):
        assert journal.team_from_json(json.loads(json.dumps(journal.team_as_json(by)))) == by
    else:
        assert journal.search_rules_from_json(json.loads(json.dumps(journal.search_rules_as_json(by)))) == by


@given(worlds(), any_rules, st.sampled_from(TIMES), st.integers(0, 99))
def test_every_line_of_a_trace_is_as_the_schema_says(
    world: World, by: SearchRules | Team, time: str, seed: int
) -> None:
    for told in played(world, by, Random(seed), time, units=3).trace:
        VALID.validate(json.loads(trace_line(told)))


def test_every_reason_that_the_schema_has_is_given() -> None:
    """Together by these searches; `abort`, `terminal_node` and `no_goal` by the tests that are about them."""
    circle = World({"root": {"a": ("x",), "b": ("y",)}, "x": {"c": ("y",)}, "y": {"d": ("x",), "e": ("root",)}})
    hindered = Interventions(Block(0.5, 2), Delay(0.3, 1))
    runs = [played(circle, rules()), played(CHAIN, team(rules(), 2, interventions=hindered))]
    found = {told["reason"] for run in runs for told in run.trace}
    elsewhere = {"abort", "terminal_node", "no_goal"}
    assert found | elsewhere == set(SCHEMA["properties"]["reason"]["enum"])


def test_the_schema_takes_neither_more_nor_less() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    [told, *_] = played(CHAIN, rules()).trace
    for name in told:
        with pytest.raises(ValidationError):
            VALID.validate({each: value for each, value in told.items() if each != name})
    for wrong in ({"more": 1}, {"selected_path": []}, {"reason": "other"}, {"iteration": 0}):
        with pytest.raises(ValidationError):
            VALID.validate({**told, **wrong})


def test_a_real_journal_and_a_virtual_one_are_told_apart() -> None:
    assert [json.loads(a_journal(team(rules()), time)[0])["time"] for time in TIMES] == [VIRTUAL_TIME, REAL_TIME]
