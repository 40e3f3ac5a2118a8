"""Several sessions at work on one theorem: no timing shows in virtual time, and however it ends, nothing is left."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.mcts_leans import BOUND, GOAL, During, Hanging, Killed, TableLean, guide
from kit.mcts_worlds import TIMES, World, differences, expansions, maths, rules, team, teams, trace_of_journal

from pipeline.lean.model import Interrupted, LeanCrash, LeanStartError, Stop
from pipeline.mcts.run import SearchFiles, TheoremResult, TheoremTask, prove_theorem
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.search.records import Budget, SearchRules, SelectionRules
from pipeline.mcts.search.trace import trace_line

FEW = settings(max_examples=60)
BUDGETS = [Budget(40), Budget(40, 12)]
# Once it is clear that "skip" is of no use, two agents are at the others.
FORK = World(
    {"g": {"skip": None, "a": ("g",), "b": ("h",)}, "h": {"c": ()}}, {"h": 0.9}, {"skip": 0.9, "a": 0.5, "b": 0.4}
)
PAIR = team(rules(9), agents=2)


def bushy(seed: int) -> World:
    """A world in which there is much to do at once."""
    rng = Random(seed)
    goals = [f"g{number}" for number in range(20)]
    table = {goal: {tactic: some(rng, goals) for tactic in ("a", "b", "c", "d")} for goal in goals}
    return World(table, {goal: rng.choice([0.3, 0.5, 0.8]) for goal in goals}, {"a": 0.3, "b": 0.8})


def some(rng: Random, goals: Sequence[str]) -> tuple[str, ...] | None:
    left = rng.choice([None, 0, 1, 1, 2, 2, 3])
    return None if left is None or (left == 0 and rng.random() < 0.5) else tuple(rng.choices(goals, k=left))


bushes = st.builds(bushy, st.integers(0, 9999))
many = st.builds(
    lambda by, budget: by._replace(rules=by.rules._replace(budget=budget)), teams(), st.sampled_from(BUDGETS)
)
ones = st.builds(SearchRules, st.sampled_from(BUDGETS), maths(), expansions)


ends = st.tuples(st.integers(1, 20), st.sampled_from([LeanCrash("killed"), LeanStartError("killed"), Interrupted()]))


class Searched(NamedTuple):
    found: TheoremResult
    lines: list[str]
    trace: list[str]
    count: Counter[str]


class Search(NamedTuple):
    """Of a world; `during` is what happens while a tactic runs."""

    world: World
    by: SearchRules | TeamRules
    time: str = VIRTUAL_TIME
    during: During = lambda tactic, stop: None

    def run(self, sessions: int, before: Sequence[str] = (), stop: Stop | None = None, write: Any = None) -> Searched:
        """However it ends, nothing is left of it."""
        lean = TableLean(self.world, self.during)
        lines, trace = [*before], list[str]()
        wanted = TheoremTask(GOAL, self.by, guide(self.world), self.time)
        files = SearchFiles(before, write or lines.append, lambda told: trace.append(trace_line(told)))
        try:
            found = prove_theorem(wanted, lean, files, stop, sessions)
        finally:
            assert not [each for each in threading.enumerate() if each.name.startswith("session")]
            assert lean.count["closed"] == lean.count["opened"] <= sessions
        return Searched(found, lines, trace, lean.count)


def slowly(seed: int) -> During:
    rng = Random(seed)
    return lambda tactic, stop: time.sleep(rng.choice([0.0, 0.0, 0.0003, 0.002]))


@FEW
@given(bushes, many, st.integers(0, 99))
def test_in_virtual_time_neither_sessions_nor_timing_show_in_a_byte(world: World, by: TeamRules, seed: int) -> None:
    one = Search(world, by).run(1)
    for sessions in (2, 4):
        more = Search(world, by, during=slowly(seed)).run(sessions)
        assert [more.lines, more.trace] == [one.lines, one.trace]
        calls = more.found.calls
        assert calls["tactics"] + calls["prepared"] + calls["again"] == more.count["run"]
        assert calls["keys"] == more.count["key"]
        same = {"again": one.found.calls["again"], "prepared": one.found.calls["prepared"]}
        assert more.found._replace(calls=more.found.calls | same) == one.found


@FEW
@given(bushes, st.one_of(ones, many))
def test_in_virtual_time_what_is_spent_is_what_lean_ran_and_all_of_it_is_in_the_trace(
    world: World, by: SearchRules | TeamRules
) -> None:
    run = Search(world, by).run(1)
    told = sum(len(json.loads(each)["tactics"]) for each in run.trace)
    assert run.found.spent == run.found.calls["tactics"] == told


@FEW
@given(bushes, many, st.sampled_from([1, 2, 4]), st.integers(0, 99))
def test_in_real_time_the_journal_tells_the_order_and_no_iteration_is_lost(
    world: World, by: TeamRules, sessions: int, seed: int
) -> None:
    run = Search(world, by, REAL_TIME, slowly(seed)).run(sessions)
    assert differences(run.lines) == []
    assert trace_of_journal(run.lines) == run.trace
    iterations = sorted(json.loads(each)["iteration"] for each in run.trace)
    assert iterations == [*range(1, len(iterations) + 1)]
    assert len(iterations) <= by.rules.budget.iterations
    assert run.found.calls["tactics"] <= (by.rules.budget.calls or len(iterations) * by.rules.expansion.attempts)
    assert run.found.calls["tactics"] <= run.count["run"]
    assert run.found.status != "solved" or run.found.verified


@FEW
@given(bushes, st.one_of(ones, many), st.sampled_from(TIMES), ends, st.integers(0, 99))
def test_what_a_lean_says_that_was_killed_with_us_is_not_believed(
    world: World, by: SearchRules | TeamRules, time: str, end: tuple[int, Exception], seed: int
) -> None:
    """A search that goes on later is what it would have been, and nothing is told after the stop."""
    stop, slow = threading.Event(), slowly(seed)
    when, error = end
    count, lines, late = [0], list[str](), list[str]()

    def killed(tactic: str, until: Stop) -> None:
        slow(tactic, until)
        count[0] += 1
        if count[0] == when:
            stop.set()
        if stop.is_set():
            raise error

    def write(text: str) -> None:
        lines.append(text)
        if stop.is_set() and '"what":"tell"' in text:
            late.append(text)

    try:
        Search(world, by, time, killed).run(3, stop=stop, write=write)
    except Interrupted:
        assert stop.is_set()
    else:
        assert not stop.is_set()
    assert not late
    again = Search(world, by, time, slow).run(2, before=lines)
    assert differences(again.lines) == []
    assert "no_goal" not in "".join(again.trace)
    if time == VIRTUAL_TIME:
        whole = Search(world, by, time).run(1)
        assert [again.lines, again.trace] == [whole.lines, whole.trace]


@pytest.mark.parametrize("time", TIMES)
def test_a_lean_that_is_lost_for_good_leaves_the_goal_for_later(time: str) -> None:
    def lost(tactic: str, _stop: Stop) -> None:
        if tactic == "a":
            raise LeanCrash("it ended")

    run = Search(FORK._replace(table={"g": {"a": ("g",)}}), PAIR, time, lost).run(2)
    reasons = {json.loads(each)["reason"] for each in run.trace}
    assert "no_goal" in reasons
    assert run.found.status == "open"


@pytest.mark.parametrize("time", TIMES)
def test_a_tactic_that_ends_the_process_fails_and_the_search_goes_on(time: str) -> None:
    def ended(tactic: str, _stop: Stop) -> None:
        if tactic == "a":
            raise Killed

    run = Search(World({"g": {"a": (), "b": ()}}, priors={"a": 0.9, "b": 0.1}), rules(9), time, ended).run(1)
    tried = [(each["tactic"], each["error"]) for told in run.trace for each in json.loads(told)["attempts"]]
    assert tried == [("a", "crash"), ("b", None)]
    assert [run.found.script[-1], run.found.verified] == ["b", True]


@pytest.mark.parametrize("time", TIMES)
def test_as_many_tactics_run_at_once_as_there_are_sessions(time: str) -> None:
    both = threading.Barrier(2)

    def during(tactic: str, _stop: Stop) -> None:
        if tactic in ("a", "b"):
            both.wait(BOUND)

    assert Search(FORK, PAIR, time, during).run(2).found.verified


def test_what_is_still_tried_when_a_proof_is_there_is_interrupted_and_not_heard() -> None:
    hanging = Hanging()

    def during(tactic: str, stop: Stop) -> None:
        if tactic == "a":
            hanging.hang(stop)
        if tactic == "b":
            assert hanging.begun.wait(BOUND)

    run = Search(FORK, PAIR, REAL_TIME, during).run(2)
    assert hanging.interrupted
    assert [run.found.script[1::2], run.found.verified] == [("b", "c"), True]
    assert [json.loads(each)["reason"] for each in run.trace][-1] == "abort"
    assert trace_of_journal(run.lines) == run.trace
    told = [json.loads(each)["outcome"]["attempts"] for each in run.lines if '"what":"tell"' in each]
    assert [each["tactic"] for attempts in told for each in attempts] == ["skip", "b", "c"]
    assert not run.count["started again"]


def test_nothing_is_being_tried_any_more_when_the_proof_is_written() -> None:
    """By a session that has to take up a goal for it, which another had proved."""
    hanging, proved, written = Hanging(), threading.Event(), list[bool]()
    both = threading.Barrier(2, proved.set)

    def during(tactic: str, stop: Stop) -> None:
        if tactic == "a":
            hanging.hang(stop)
        if tactic == "c":
            assert hanging.begun.wait(BOUND)
            both.wait(BOUND)
        if tactic == "front" and proved.is_set():
            written.append(hanging.interrupted)

    parts = World({"g": {"b": ("x", "y"), "a": ("g",)}, "x": {"c": ()}, "y": {"c": ()}})
    by = team(rules(20, maths=SelectionRules(widen=1e9)), agents=3)
    assert Search(parts, by, REAL_TIME, during).run(3).found.verified
    assert written == [True]


@pytest.mark.parametrize("time", TIMES)
def test_a_fault_in_a_thread_is_raised_when_the_others_have_ended(time: str) -> None:
    hanging = Hanging()

    def during(tactic: str, stop: Stop) -> None:
        if tactic == "a":
            hanging.hang(stop)
        if tactic == "b":
            assert hanging.begun.wait(BOUND)
            raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours") as raised:
        Search(FORK, PAIR, time, during).run(2)
    assert hanging.interrupted
    assert "during" in [each.name for each in raised.traceback]


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("late", [False, True])
def test_a_session_for_which_there_is_no_room_is_not_waited_for(time: str, late: bool) -> None:
    """Nor left open, if it is opened when it is not wanted any more."""
    opened, hanging = threading.Event(), Hanging()

    def during(tactic: str, stop: Stop) -> None:
        if tactic == "open" and opened.is_set():
            with suppress(Interrupted) if late else nullcontext():
                hanging.hang(stop)
        if tactic in ("a", "b"):
            assert hanging.begun.wait(BOUND)
        opened.set()

    run = Search(FORK, PAIR, time, during).run(2)
    assert hanging.interrupted
    assert [run.found.verified, run.count["opened"], run.found.calls["again"]] == [True, 1 + late, 0]


@pytest.mark.parametrize("time", TIMES)
def test_a_session_that_cannot_be_opened_is_told_and_not_done_without(time: str) -> None:
    opened, hanging = threading.Event(), Hanging()

    def during(tactic: str, stop: Stop) -> None:
        if tactic == "open" and opened.is_set():
            raise LeanStartError("no memory is left")
        if tactic == "a":
            hanging.hang(stop)
        opened.set()

    with pytest.raises(LeanStartError, match="no memory"):
        Search(FORK, PAIR, time, during).run(2)


@pytest.mark.parametrize("time", TIMES)
def test_a_stop_interrupts_all_sessions(time: str) -> None:
    stop = threading.Event()
    both, hanging = threading.Barrier(2, stop.set), [Hanging(), Hanging()]

    def during(tactic: str, until: Stop) -> None:
        if tactic in ("a", "b"):
            both.wait(BOUND)
            hanging[tactic == "b"].hang(until)

    with pytest.raises(Interrupted):
        Search(FORK, PAIR, time, during).run(2, stop=stop)
    assert all(each.interrupted for each in hanging)


def test_one_controller_opens_one_session() -> None:
    assert Search(FORK, rules(9)).run(4).count["opened"] == 1


def killed_once() -> During:
    """At the first time of each thing that is done."""
    done: set[str] = set()

    def during(what: str, _stop: Stop) -> None:
        if what != "open" and what not in done:
            done.add(what)
            raise Killed

    return during


@FEW
@given(bushes, ones)
def test_a_process_that_is_killed_decides_nothing(world: World, by: SearchRules) -> None:
    """Neither what applies, nor whether a goal gets names, nor whether a proof holds."""
    whole, killed = Search(world, by).run(1), Search(world, by, during=killed_once()).run(1)
    assert (killed.lines, killed.trace) == (whole.lines, whole.trace)
    assert killed.found == whole.found
