"""Agents on one tree: where they go when others are under way, what they know, and what time has to do with it."""

from collections import defaultdict
from math import log, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.mcts_worlds import TIMES, Played, World, begun, played, rules, team, teams, text, worlds

from pipeline.mcts.search import agents
from pipeline.mcts.search.agents import UNOBSERVED, VIRTUAL_LOSS, Agent, ReservationRules, count_reservations
from pipeline.mcts.search.distributed import TeamRules, VirtualClock
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.search.records import (
    EXPLORE,
    UCT,
    Expand,
    ExpandOutcome,
    SelectionRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
)
from pipeline.mcts.search.tree import SearchTree

FORK = World({"root": {"a": ("x",), "b": ("y",)}, "x": {f"{n}": (f"x{n}",) for n in range(9)}, "y": {"1": None}})


def forked(values: tuple[float, float] = (0.5, 0.5)) -> SearchTree:
    """A goal with two actions, both visited once."""
    tree = SearchTree(
        SelectionRules(UCT, EXPLORE[UCT], widen=1e9), Subgoal("root", moves=(WeightedMove("a"), WeightedMove("b")))
    )
    for tactic, child, value in (("a", "x", values[0]), ("b", "y", values[1])):
        tree.land(
            tree.root, tree.take(tree.root, 1), ExpandOutcome(1, (TacticAttempt(tactic, (Subgoal(child, "", value),)),))
        )
        tree.backup([], tree.root)
    return tree


def gone(tree: SearchTree, agent: Agent, **how: float) -> str:
    return agents.select_for_agent(tree, ReservationRules(2, 1, **how), agent, set()).node.key  # type: ignore[arg-type]


def test_a_reservation_counts_as_visits_that_were_lost() -> None:
    visits, value = count_reservations(ReservationRules(1, 1, VIRTUAL_LOSS, 3.0), 4, 0.5, 2)
    assert (visits, value) == (4 + 2 * 3, (4 * 0.5 - 2 * 3) / (4 + 2 * 3))


def test_an_unobserved_visit_counts_without_a_value() -> None:
    assert count_reservations(ReservationRules(1, 1, UNOBSERVED, 3.0), 4, 0.5, 2) == (6, 0.5)


@pytest.mark.parametrize("counting", [VIRTUAL_LOSS, UNOBSERVED])
def test_an_agent_scores_by_what_is_documented(counting: str) -> None:
    """With u the root of two: value, as reckoned, plus u times the root of ln(visits above) / visits, as reckoned."""
    loss, above = 0.5, 5 + 2 * (0.5 if counting == VIRTUAL_LOSS else 1)
    for visits, value in ((2, 0.95), (2, 0.99), (3, 0.8)):
        tree = forked((value, 0.5))
        tree.actions[0].visits, tree.root.visits = visits, 5
        tree.actions[0].value, tree.actions[0].flying, tree.root.flying = value, 2, 2
        counted, reckoned_value = count_reservations(ReservationRules(1, 1, counting, loss), visits, value, 2)
        first = reckoned_value + sqrt(2) * sqrt(log(above) / counted)
        second = 0.5 + sqrt(2) * sqrt(log(above) / 1)
        found = gone(tree, Agent(0), counting=counting, virtual_loss=loss)  # type: ignore[arg-type]
        assert found == ("x" if first >= second else "y")


def test_an_agent_goes_where_no_other_is() -> None:
    for counting in (VIRTUAL_LOSS, UNOBSERVED):
        tree = forked()
        assert gone(tree, Agent(0), counting=counting) == "x"  # type: ignore[arg-type]
        tree.actions[0].flying = tree.root.flying = 1
        assert gone(tree, Agent(1), counting=counting) == "y"  # type: ignore[arg-type]


def test_of_goals_that_are_all_needed_those_where_nobody_is_come_first() -> None:
    tree = SearchTree(SelectionRules(), Subgoal("root", moves=(WeightedMove("a"),)))
    children = (Subgoal("x", "", 0.2), Subgoal("y", "", 0.5))
    tree.land(tree.root, tree.take(tree.root, 1), ExpandOutcome(1, (TacticAttempt("a", children),)))
    tree.backup([], tree.root)
    assert gone(tree, Agent(0)) == "x"
    tree.nodes[1].flying = 1
    assert gone(tree, Agent(0)) == "y"


def test_the_way_that_an_agent_took_last_has_a_bias() -> None:
    tree = forked((0.5, 0.6))
    agent = Agent(0, last=frozenset({0}))
    assert gone(tree, agent) == "y"
    assert gone(tree, agent, path_bias=0.2) == "x"
    assert gone(tree, agent, path_bias=-0.2) == "y"


def test_deep_goals_have_a_bias() -> None:
    tree = forked((0.5, 0.6))
    tree.nodes[1].depth = 3
    assert gone(tree, Agent(0)) == "y"
    assert gone(tree, Agent(0), depth_bias=0.1) == "x"


def test_an_agent_goes_by_what_it_saw_until_it_looks_again() -> None:
    tree, agent = forked((0.5, 0.6)), Agent(0)
    for turn in range(3):
        agents.refresh_view(tree, agent, 2)
        assert gone(tree, agent) == ("y" if turn < 2 else "x")
        tree.actions[1].value = 0.1


def test_an_agent_knows_at_once_what_it_found_itself() -> None:
    tree, agent = forked((0.5, 0.6)), Agent(0)
    agents.refresh_view(tree, agent, 9)
    tree.actions[1].value = tree.nodes[2].value = 0.1
    tree.backup([tree.actions[1]], tree.nodes[2])
    assert gone(tree, agent) == "y"
    agents.update_view(agent, [tree.actions[1]], tree.nodes[2])
    assert gone(tree, agent) == "x"
    assert agent.view is not None
    assert agent.view.totals == [node.visits for node in tree.nodes] == [3, 0, 1]


@given(st.lists(st.lists(st.sampled_from(["fails", "leads on", "splits"]), max_size=4), max_size=9), teams(60))
def test_one_agent_that_never_looks_again_knows_all_where_ways_do_not_meet(
    kinds: list[list[str]], by: TeamRules
) -> None:
    """It has found everything itself."""
    table: dict[str, dict[str, tuple[str, ...] | None]] = {"g": {"a": ("g0",)}}
    for number, moves in enumerate(kinds):
        left = {"fails": 0, "leads on": 1, "splits": 2}
        table[f"g{number}"] = {
            f"{move}": tuple(f"g{number + 1 + n}" if not n else f"{number}.{move}" for n in range(left[kind])) or None
            for move, kind in enumerate(moves)
        }
    world = World(defaultdict(dict, table))
    one = by._replace(steering=by.steering._replace(agents=1, path_bias=0.0))
    blind = one._replace(steering=one.steering._replace(refresh=1000))
    seeing = one._replace(steering=one.steering._replace(refresh=1))
    assert text(played(world, blind).trace) == text(played(world, seeing).trace)


def test_an_agent_that_never_looks_again_does_not_run_against_a_circle_for_ever() -> None:
    table = {"root": {"a": ("x",), "b": ("z",)}, "x": {"b": ("y",), "f": None}, "y": {"c": ("x",)}, "z": {"d": ("w",)}}
    world = World(table | {"w": {"e": None, "f": ()}}, {"z": 0.3, "w": 0.3})
    by = rules(60, maths=SelectionRules(widen=0.5))
    assert text(played(world, team(by, refresh=1000)).trace) == text(played(world, by).trace)


def test_no_more_moves_of_a_goal_are_tried_at_once_than_is_allowed() -> None:
    world = World({"root": {f"{n}": None for n in range(9)}}, told=frozenset({"root"}))
    for inflight in (1, 3):
        run = begun(world, team(rules(9), agents=5, inflight=inflight))
        asked = list(iter(run.journalled.ask, None))
        assert [expand.agent for expand in asked] == list(range(inflight))
        assert [told["reason"] for told in run.trace] == ["no_expansion"] * (5 - inflight)


@given(worlds(), teams(60), st.sampled_from(TIMES), st.integers(0, 99))
def test_nothing_stays_reserved(world: World, by: TeamRules, time: str, seed: int) -> None:
    run = played(world, by, Random(seed), time, units=3)
    assert not any(node.flying or node.pending for node in run.tree.nodes)
    assert not any(action.flying for action in run.tree.actions)
    assert run.trace == [] or run.trace[-1]["tree"]["inflight"] == 0


@given(worlds(), teams(60), st.sampled_from(TIMES), st.integers(0, 99))
def test_every_iteration_has_one_line_and_no_visit_is_lost(world: World, by: TeamRules, time: str, seed: int) -> None:
    run = played(world, by, Random(seed), time, units=3)
    assert sorted(told["iteration"] for told in run.trace) == list(range(1, len(run.trace) + 1))
    counted = [0] * len(run.tree.nodes)
    for told in run.trace:
        for number in told["selected_path"] if told["backprop_success"] else []:
            counted[number] += 1
    assert [node.visits for node in run.tree.nodes] == counted


@given(worlds(), teams(60), st.integers(0, 99), st.integers(1, 4))
def test_in_virtual_time_the_order_in_which_answers_come_changes_nothing(
    world: World, by: TeamRules, seed: int, units: int
) -> None:
    first = played(world, by, Random(0), VIRTUAL_TIME, units)
    assert text(played(world, by, Random(seed), VIRTUAL_TIME, units).trace) == text(first.trace)


def test_in_virtual_time_an_agent_that_is_quick_takes_more_turns() -> None:
    run = begun(World({"root": {f"{n}": None for n in range(20)}}, told=frozenset({"root"})), team(rules(12), agents=2))
    asked: list[Expand] = []
    while not run.journalled.policy.is_finished:
        asked += iter(run.journalled.ask, None)
        while asked:
            expand = asked.pop()
            run.journalled.tell(
                ExpandOutcome(
                    expand.iteration, (TacticAttempt(*expand.tactics, error="no"),), units=1 + 4 * expand.agent
                )
            )
    assert [told["agent_id"] for told in run.trace].count(0) == 10


def test_time_does_not_stand_still() -> None:
    run = begun(FORK, team(rules(9)))
    expand = run.journalled.ask()
    assert expand is not None
    with pytest.raises(ValueError, match="it has to take some"):
        run.journalled.tell(ExpandOutcome(expand.iteration, units=0.0))


def test_calls_that_were_reserved_and_not_needed_are_used_by_those_who_waited() -> None:
    """Two agents reserve all that is left; one needs less, and both go on."""
    by = rules(99, 6)
    by = by._replace(expansion=by.expansion._replace(attempts=3))
    world = World({"root": {f"{n}": (f"g{n}",) for n in range(9)}, **{f"g{n}": {"a": None} for n in range(9)}})
    run = played(world._replace(told=frozenset(world.table)), team(by, agents=3))
    assert sum(len(told["attempts"]) for told in run.trace) == 6


def test_who_found_all_calls_reserved_goes_on_when_some_are_free_again() -> None:
    by = rules(99, 4)
    world = World({"root": {f"{n}": None for n in range(9)}}, told=frozenset({"root"}))
    run = begun(world, team(by._replace(expansion=by.expansion._replace(attempts=3)), agents=2))
    first, second = iter(run.journalled.ask, None)
    assert [first.limit, second.limit] == [3, 1]
    run.journalled.tell(
        ExpandOutcome(first.iteration, tuple(TacticAttempt(each, error="no") for each in first.tactics))
    )
    run.journalled.tell(ExpandOutcome(second.iteration, no_goal=True, units=5.0))
    third = run.journalled.ask()
    assert third is not None
    assert third.agent == 0


def test_a_turn_that_comes_to_nothing_takes_one_unit_of_time() -> None:
    run = begun(World({"root": {"a": (), "b": None}}), team(rules(20), agents=2))
    expand = run.journalled.ask()
    assert expand is not None
    assert run.journalled.ask() is None
    run.journalled.tell(
        ExpandOutcome(
            expand.iteration, (TacticAttempt("b", error="no"),), (WeightedMove("b"), WeightedMove("a")), units=3.0
        )
    )
    run.journalled.ask()
    assert [told["agent_id"] for told in run.trace] == [1, 1, 1, 0]


def test_in_real_time_an_agent_that_finds_nothing_rests_until_something_lands() -> None:
    world = World({"root": {"a": ("x",), "b": ("y",), "c": None, "d": None}, "x": {}, "y": {}})
    run = begun(world, team(rules(20), agents=4), REAL_TIME)
    [first] = iter(run.journalled.ask, None)
    assert first.agent == 0
    assert [told["agent_id"] for told in run.trace] == [1, 2, 3]
    assert run.journalled.ask() is None
    assert len(run.trace) == 3
    run.journalled.tell(world.answer(run.tree, first))
    assert {each.agent for each in iter(run.journalled.ask, None)} == {0, 1, 2, 3}


def test_an_answer_to_a_solved_goal_is_heard_and_said_to_be_late() -> None:
    table = {"root": {"a": ("x", "y")}, "x": {"b": (), "c": ("z",)}, "y": {"d": ("z",)}, "z": {"e": None}}
    world = World(table, {"x": 0.9, "y": 0.9}, told=frozenset(table))
    run = begun(world, team(rules(20), agents=4), REAL_TIME)
    first = run.journalled.ask()
    assert first is not None
    run.journalled.tell(world.answer(run.tree, first))
    asked = {expand.tactics[0]: expand for expand in iter(run.journalled.ask, None)}
    assert {"b", "c"} <= set(asked)
    for tactic in ("b", "c"):
        run.journalled.tell(world.answer(run.tree, asked[tactic]))
    assert [told["reason"] for told in run.trace if told["tactics"] == ["c"]] == ["terminal_node"]
    assert any(node.key == "z" for node in run.tree.nodes)


def test_a_search_by_four_takes_fewer_units_of_time() -> None:
    def units(agents: int) -> float:
        table = {f"g{n}": {f"{m}": (f"g{2 * n + m}",) for m in (1, 2)} for n in range(60)}
        world = World(table | {f"g{n}": {"a": None} for n in range(60, 200)})
        notes: list[object] = []
        clock = VirtualClock(team(rules(80), agents), world.root, notes.append)
        latest = 0.0
        while not clock.is_finished:
            for expand in list(iter(clock.ask, None)):
                clock.tell(world.answer(clock.tree, expand))
            latest = max([latest, *(event[0] for event in clock.events)])
        return latest

    assert units(4) < 0.4 * units(1)


def test_agents_do_not_all_go_one_way() -> None:
    run: Played = played(FORK._replace(told=frozenset({"root"})), team(rules(5), agents=3))
    assert {told["node"]["key"] for told in run.trace} >= {"x", "y"}
