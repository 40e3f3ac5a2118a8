"""Blocks, delays and reroutes: what they cost, what they leave alone, and whose chances they are."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.mcts_worlds import TIMES, World, played, rules, team, text, worlds

from pipeline.mcts.search.agents import Block, Delay, Interventions, Obstacles, draw
from pipeline.mcts.search.nodes import GoalNode

EASY = World({"root": {"a": ("x",), "b": ("y",)}, "x": {"a": ()}, "y": {"a": ()}})
WIDE = World({"root": {f"{n}": (f"g{n}",) for n in range(8)}, **{f"g{n}": {"a": None} for n in range(8)}})


def node(number: int, names: str = "") -> GoalNode:
    return GoalNode(number, f"k{number}", names, 0.5, 0)


def gate(**how: Any) -> Obstacles:
    return Obstacles(Interventions(Block(**how)))


def blocked(at: Obstacles, iterations: range, number: int = 0) -> list[int]:
    return [each for each in iterations if at.block_record(node(number), each)]


def test_draws_are_even_and_repeat() -> None:
    drawn = [draw(7, "block", number) for number in range(4000)]
    assert all(0 <= each < 1 for each in drawn)
    assert [round(sum(each < share for each in drawn) / 4000, 1) for share in (0.1, 0.5, 0.9)] == [0.1, 0.5, 0.9]
    assert draw(7, "block", 1) == drawn[1] != draw(8, "block", 1)


def test_a_block_holds_for_its_duration_and_is_decided_once() -> None:
    assert blocked(gate(fraction=1.0, duration=3), range(5, 12)) == [5, 6, 7, 8]
    assert blocked(gate(fraction=1.0), range(5, 12)) == list(range(5, 12))
    assert blocked(gate(fraction=0.0), range(5, 12)) == []


def test_about_the_fraction_is_blocked() -> None:
    at = gate(fraction=0.3, seed=5)
    assert 250 < sum(at.block_record(node(number), 1) is not None for number in range(1000)) < 350


def test_the_nth_hit_thaws_for_those_that_come_later() -> None:
    assert blocked(gate(fraction=1.0, unfreeze_after=3), range(1, 9)) == [1, 2, 3]
    assert blocked(gate(fraction=1.0, unfreeze_prob=1.0), range(1, 9)) == [1]
    assert 1 < len(blocked(gate(fraction=1.0, unfreeze_prob=0.2), range(1, 99))) < 30


def test_no_hit_thaws_what_is_immovable_but_time_does() -> None:
    assert blocked(gate(fraction=1.0, immovable=1.0, unfreeze_after=1, unfreeze_prob=1.0), range(1, 9)) == [
        *range(1, 9)
    ]
    assert blocked(gate(fraction=1.0, immovable=1.0, duration=2), range(1, 9)) == [1, 2, 3]
    at = gate(fraction=1.0, immovable=0.5, unfreeze_after=1)
    thawed = [at.block_record(node(number), 1) for number in range(400)]
    assert 150 < sum(bool(each and each["thawed"]) for each in thawed) < 250


def delayed(prob: float, duration: int, iterations: range) -> list[int]:
    at = Obstacles(Interventions(delay=Delay(prob, duration, seed=3)))
    return [each for each in iterations if at.delay_record(node(0), each)]


def test_a_delay_holds_for_its_duration_and_is_drawn_again_meanwhile() -> None:
    assert delayed(0.0, 5, range(1, 50)) == []
    assert delayed(1.0, 0, range(1, 9)) == [*range(1, 9)]
    drawn = delayed(0.2, 0, range(1, 60))
    assert 0 < len(drawn) < 30
    until = {each + more for each in drawn for more in range(4)}
    assert delayed(0.2, 3, range(1, 60)) == sorted(until & {*range(1, 60)})


@given(st.permutations(range(12)), st.integers(0, 5), st.sampled_from([0.2, 0.5]), st.booleans())
def test_no_draw_moves_another(order: list[int], seed: int, fraction: float, more: bool) -> None:
    """Whatever else is drawn, and in whatever order goals are come to."""
    plain = gate(fraction=fraction, seed=seed)
    between = Interventions(Block(fraction, seed=seed, immovable=0.5), Delay(0.5, 2, seed), reroute=2)
    other = Obstacles(between if more else Interventions(Block(fraction, seed=seed)))
    found = {}
    for number in order:
        other.delay_record(node(number), number)
        found[number] = other.block_record(node(number), number) is not None
    assert found == {number: plain.block_record(node(number), 50 + number) is not None for number in range(12)}


@given(st.sets(st.integers(0, 40)), st.booleans())
def test_a_delay_is_drawn_for_a_goal_and_an_iteration(iterations: set[int], more: bool) -> None:
    alone = Obstacles(Interventions(delay=Delay(0.5, 0, 9)))
    other = Obstacles(Interventions(Block(0.5, seed=9) if more else Block(), Delay(0.5, 0, 9)))
    expected = {each: alone.delay_record(node(each % 4), each) is not None for each in range(41)}
    for each in sorted(iterations):
        other.block_record(node(each % 4), each)
        assert (other.delay_record(node(each % 4), each) is not None) == expected[each]


def test_goals_of_one_key_that_call_things_differently_have_chances_of_their_own() -> None:
    at = gate(fraction=0.5)
    found = {at.block_record(GoalNode(number, "k", f"{number}", 0.5, 0), 1) is None for number in range(50)}
    assert found == {True, False}


@given(worlds(), st.sampled_from(TIMES), st.integers(1, 4))
def test_where_all_is_blocked_for_good_nothing_is_solved_and_the_budget_is_spent(
    world: World, time: str, agents: int
) -> None:
    run = played(world, team(rules(20), agents, interventions=Interventions(Block(1.0))), time=time)
    if run.trace:  # a root without moves is dead before it begins
        assert [told["reason"] for told in run.trace] == ["blocked"] * 20
        assert not any(told["tree"]["solved"] or told["attempts"] or told["tactics"] for told in run.trace)
    assert len(run.tree.nodes) == 1
    assert run.tree.root.visits == 0


def test_blocked_and_delayed_iterations_are_part_of_the_budget_and_change_nothing() -> None:
    for between in (Interventions(Block(0.6, 4, 1)), Interventions(delay=Delay(0.5, 2, 1))):
        run = played(WIDE, team(rules(15), 2, interventions=between))
        assert sorted(told["iteration"] for told in run.trace) == [*range(1, 16)]
        hindered = [told for told in run.trace if told["reason"] in ("blocked", "delayed")]
        assert hindered
        for told in hindered:
            assert not told["backprop_success"]
            assert told["block" if told["reason"] == "blocked" else "delay"]["node"] == told["node"]["id"]


def test_delays_and_blocks_that_pass_do_not_keep_a_search_from_its_proof() -> None:
    for between in (
        Interventions(Block(1.0, 5)),
        Interventions(Block(1.0, unfreeze_after=2)),
        Interventions(Block(1.0, unfreeze_prob=0.3)),
        Interventions(delay=Delay(0.7, 2)),
    ):
        assert played(EASY, team(rules(200), 2, interventions=between)).trace[-1]["tree"]["solved"]


def lucky(fraction: float, free: str, stuck: str) -> int:
    """A seed with which the one goal is free, as is the root, and the other is not."""
    for seed in range(999):
        hit = [draw(seed, "block", key, "") < fraction for key in ("root", free, stuck)]
        if hit == [False, False, True]:
            return seed
    raise AssertionError("none")


def test_a_reroute_goes_to_another_goal_within_the_same_iteration() -> None:
    block = Block(0.5, seed=lucky(0.5, "y", "x"))
    world = World({**EASY.table, "x": {"a": None, "b": None}}, told=frozenset({"root"}))
    without = played(world, team(rules(30), interventions=Interventions(block)))
    assert [told["reason"] for told in without.trace[1:]] == ["blocked"] * 29
    found = played(world, team(rules(30), interventions=Interventions(block, reroute=1)))
    turned = [told["reroute"] for told in found.trace if told["reroute"]]
    assert turned[0]["from"] == [1]
    assert found.trace[-1]["tree"]["solved"]


def test_a_reroute_that_finds_nothing_is_spent_as_blocked() -> None:
    between = Interventions(Block(1.0), reroute=3)
    run = played(WIDE, team(rules(5), interventions=between))
    assert [(told["reason"], told["reroute"]) for told in run.trace] == [("blocked", {"from": [0], "to": None})] * 5


@pytest.mark.parametrize("time", TIMES)
@given(worlds(), st.integers(0, 9))
def test_a_scenario_that_hinders_nothing_changes_nothing(time: str, world: World, seed: int) -> None:
    idle = Interventions(Block(0.0, 3, seed, 0.5, 2, 0.5), Delay(0.0, 5, seed), reroute=3)
    plain = played(world, team(rules(40), 3), Random(seed), time)
    assert text(played(world, team(rules(40), 3, interventions=idle), Random(seed), time).trace) == text(plain.trace)
