"""The trace of a tree search is that of its journal, and as documented; what the journal has is read as it was."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from kit.mcts_worlds import (
    TIMES,
    World,
    carry_on,
    hindered,
    ones,
    played,
    rules,
    team,
    text,
    trace_of_journal,
    worlds,
)
from kit.project import ROOT

from pipeline.core.journal import resume
from pipeline.mcts.search import journal
from pipeline.mcts.search.agents import Block, Delay, Interventions
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import REAL_TIME, REPLAY_STEPS, VIRTUAL_TIME, search_form
from pipeline.mcts.search.records import ExpandOutcome, SearchRules, Subgoal, TacticAttempt, WeightedMove
from pipeline.mcts.search.trace import trace_line

SCHEMA = json.loads((ROOT / "pipeline" / "mcts" / "search" / "trace.schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)
CHAIN = World({f"g{n}": {"a": None, "b": (f"g{n + 1}",)} for n in range(4)} | {"g4": {"a": ()}}, told=frozenset({"g2"}))

any_rules: st.SearchStrategy[SearchRules | TeamRules] = st.one_of(ones, hindered)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.integers(0, 99), st.data())
def test_the_trace_is_that_of_the_journal_also_when_it_is_gone_on_with(
    world: World, by: SearchRules | TeamRules, time: str, seed: int, data: st.DataObject
) -> None:
    run = played(world, by, Random(seed), time, units=3)
    assert trace_of_journal(run.lines) == [trace_line(told) for told in run.trace]
    cut = data.draw(st.integers(1, len(run.lines)))
    notes: list[dict[str, Any]] = []
    again = resume(search_form(lambda told: notes.append(dict(told))), run.lines[:cut], lambda line: None)
    for recorded in run.lines[cut:]:
        fields = json.loads(recorded)
        REPLAY_STEPS[fields["what"]](again, fields)
    assert text(notes) == text(run.trace)


@given(worlds(), any_rules, st.data())
def test_in_virtual_time_the_trace_is_the_same_in_whatever_order_answers_come_after_a_kill(
    world: World, by: SearchRules | TeamRules, data: st.DataObject
) -> None:
    run = played(world, by, Random(1), units=3)
    lines = run.lines[: data.draw(st.integers(1, len(run.lines)))]
    notes: list[dict[str, Any]] = []
    again = resume(search_form(lambda told: notes.append(dict(told))), list(lines), lines.append)
    carry_on(world, again, again.policy.unanswered, Random(2), units=3)
    assert text(notes) == text(run.trace)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.data())
def test_what_has_no_answer_yet_is_known(
    world: World, by: SearchRules | TeamRules, time: str, data: st.DataObject
) -> None:
    lines = played(world, by, Random(1), time, units=3).lines
    lines = lines[: data.draw(st.integers(1, len(lines)))]
    told = [json.loads(each) for each in lines]
    asked = {each["expand"]["iteration"] for each in told if each["what"] == "ask" and each["expand"]}
    heard = {each["outcome"]["iteration"] for each in told if each["what"] == "tell"}
    ended = {json.loads(each)["iteration"] for each in trace_of_journal(lines)}  # aborted ones are not in the journal
    policy = resume(search_form(), lines, lines.append).policy
    assert {each.iteration for each in policy.unanswered} == asked - heard - ended


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
def test_what_is_written_is_read_as_it_was(outcome: ExpandOutcome, by: SearchRules | TeamRules) -> None:
    written = json.dumps(journal.record_as_json(outcome, whole=False))
    assert journal.record_from_json(ExpandOutcome, json.loads(written)) == outcome
    for time in TIMES:
        again, clock = journal.mode_from_json(json.loads(json.dumps(journal.mode_as_json(by, time))))
        assert (again, clock) == (by, time if isinstance(by, TeamRules) else VIRTUAL_TIME)


@given(worlds(), any_rules, st.sampled_from(TIMES), st.integers(0, 99))
def test_every_line_of_a_trace_is_as_the_schema_says(
    world: World, by: SearchRules | TeamRules, time: str, seed: int
) -> None:
    for told in played(world, by, Random(seed), time, units=3).trace:
        VALID.validate(json.loads(trace_line(told)))


def test_every_reason_that_the_schema_has_is_given() -> None:
    """Together by these searches; `abort`, `terminal_node` and `no_goal` by the tests that are about them."""
    circle = World({"root": {"a": ("x",), "b": ("y",)}, "x": {"c": ("y",)}, "y": {"d": ("x",), "e": ("root",)}})
    between = Interventions(Block(0.5, 2), Delay(0.3, 1))
    runs = [played(circle, rules()), played(CHAIN, team(rules(), 2, interventions=between))]
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
    assert [json.loads(played(CHAIN, team(rules()), time=time).lines[0])["time"] for time in TIMES] == [
        VIRTUAL_TIME,
        REAL_TIME,
    ]
