"""Searches in worlds from a table: what can be proved is proved, what cannot is not, by one controller or many."""

import ast
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.mcts_worlds import (
    TIMES,
    Played,
    World,
    begun,
    expansions,
    known,
    maths,
    played,
    rules,
    team,
    teams,
    text,
    worlds,
)
from kit.project import ROOT

from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.nodes import DEAD, OPEN, SOLVED
from pipeline.mcts.search.records import (
    ALL_SUCCESSES,
    FIRST_SUCCESS,
    ExpandOutcome,
    Expansion,
    SearchRules,
    SelectionRules,
)

CHAIN = {f"g{n}": {"a": (f"g{n + 1}",), "b": None, "c": ("g0",)} for n in range(9)} | {"g9": {"a": ()}}


def decided(run: Played, world: World) -> None:
    provable = world.provable()
    root = run.tree.root
    assert root.status == (SOLVED if root.key in provable else DEAD)
    for node in run.tree.nodes:
        assert node.status == OPEN or (node.status == SOLVED) == (node.key in provable)


@given(worlds(), maths(), expansions)
def test_one_controller_proves_exactly_what_can_be_proved(
    world: World, by: SelectionRules, expansion: Expansion
) -> None:
    decided(played(world, rules(maths=by, expansion=expansion)), world)


@given(worlds(), teams(), st.integers(0, 99), st.sampled_from(TIMES))
def test_many_controllers_prove_exactly_what_can_be_proved(world: World, by: TeamRules, seed: int, time: str) -> None:
    decided(played(world, by, Random(seed), time, units=3), world)


@given(worlds(), st.integers(0, 40), st.one_of(st.none(), teams()))
def test_solved_is_what_follows_from_what_was_tried_and_nothing_else(
    world: World, iterations: int, many: TeamRules | None
) -> None:
    one = rules(iterations)
    run = played(world, many._replace(rules=one) if many else one)
    solved = {node.key for node in run.tree.nodes if node.status == SOLVED}
    assert solved == known(world, run.tree).provable()


@given(worlds(), st.integers(0, 60), st.one_of(st.none(), st.integers(0, 30)), maths(), expansions)
def test_a_budget_is_kept_to(
    world: World, iterations: int, calls: int | None, by: SelectionRules, expansion: Expansion
) -> None:
    one = rules(iterations, calls, maths=by, expansion=expansion)
    for each in (one, team(one, agents=3)):
        run = played(world, each)
        tried = sum(len(told["attempts"]) for told in run.trace)
        assert len(run.trace) <= iterations
        assert calls is None or tried <= calls
        over = run.tree.root.status != OPEN
        assert over or len(run.trace) == iterations or tried == calls


def test_calls_are_counted_to_the_last() -> None:
    world = World({"root": {f"{n}": None for n in range(20)}})
    for attempts in (1, 3):
        one = rules(99, 7, expansion=Expansion(ALL_SUCCESSES, attempts))
        for each in (one, team(one, agents=2)):
            tried = [len(told["attempts"]) for told in played(world, each).trace]
            assert [sum(tried), max(tried)] == [7, attempts]


@given(worlds(), maths(), expansions, st.integers(1, 80))
def test_one_agent_whom_nothing_hinders_goes_as_one_controller_does(
    world: World, by: SelectionRules, expansion: Expansion, iterations: int
) -> None:
    one = rules(iterations, maths=by, expansion=expansion)
    assert text(played(world, team(one)).trace) == text(played(world, one).trace)


@pytest.mark.parametrize("told", [frozenset(), frozenset({"root"})], ids=["asked for", "told"])
def test_the_first_success_leaves_the_rest_for_later_and_all_successes_does_not(told: frozenset[str]) -> None:
    table = {"root": {"bad": None, "x": ("x",), "y": ("y",)}, "x": {"t": ("z",)}, "y": {"t": ("z",)}, "z": {}}

    def tried(policy: str, attempts: int) -> list[list[str]]:
        run = played(World(table, told=told), rules(expansion=Expansion(policy, attempts)))
        return [line["tactics"] for line in run.trace if line["node"]["key"] == "root"]

    assert tried(FIRST_SUCCESS, 3) == [["bad", "x"], ["y"]]
    assert tried(ALL_SUCCESSES, 3) == [["bad", "x", "y"]]
    assert tried(FIRST_SUCCESS, 1) == tried(ALL_SUCCESSES, 1) == [["bad"], ["x"], ["y"]]


def test_a_goal_that_cannot_be_taken_up_costs_an_iteration_and_stays_as_it_is() -> None:
    run = begun(World({"root": {"a": ()}}), rules(3))
    expand = run.journalled.ask()
    assert expand is not None
    run.journalled.tell(ExpandOutcome(expand.iteration, no_goal=True))
    assert [run.trace[0]["reason"], run.tree.root.status, run.tree.root.visits] == ["no_goal", OPEN, 1]
    again = run.journalled.ask()
    assert again is not None
    assert again.iteration == 2


def test_a_goal_with_no_moves_is_dead() -> None:
    for told in (frozenset[str](), frozenset({"root"})):
        run = played(World({"root": {}}, told=told), rules(3))
        assert run.tree.root.status == DEAD


def test_what_is_under_way_when_the_search_is_over_is_aborted() -> None:
    world = World({"root": {"a": ("x",), "b": (), "c": ("x",)}, "x": {"d": None}}, told=frozenset({"root"}))
    run = played(world, team(rules(9), agents=4))
    assert [(told["agent_id"], told["reason"]) for told in run.trace] == [
        (3, "no_expansion"),  # nothing was left for it
        (0, "expanded"),
        (1, "expanded"),
        (2, "abort"),
    ]
    assert [told["tree"]["inflight"] for told in run.trace] == [3, 2, 1, 0]
    assert run.trace[-1]["tree"]["aborted"] == 1


GOLDEN = "d6260b8b54063a89"


def test_the_bytes_of_a_centralized_search_stay_what_they_are() -> None:
    """Whatever becomes of the distributed one.  When this search is meant to change, so does the line above."""
    run = played(World(CHAIN, {"g3": 0.2, "g5": 0.7}, {"a": 0.5}), rules(60, maths=SelectionRules(widen=1.5)))
    assert run.tree.root.status == SOLVED
    assert sha256("\n".join([*run.lines, text(run.trace)]).encode()).hexdigest()[:16] == GOLDEN


@pytest.mark.parametrize(
    ("runner", "others"),
    [("centralized", {"distributed", "agents"}), ("distributed", {"centralized"})],
)
def test_the_runners_do_not_know_each_other(runner: str, others: set[str]) -> None:
    seen, todo = {runner}, [runner]
    for module in todo:
        todo += imported(ROOT / "pipeline" / "mcts" / "search" / f"{module}.py") - seen
        seen |= set(todo)
    assert seen.isdisjoint(others)


def imported(path: Path) -> set[str]:
    """The modules of the same package."""
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    whole = {each.name for node in found if node.module == "pipeline.mcts.search" for each in node.names}
    return whole | {str(node.module)[21:] for node in found if str(node.module).startswith("pipeline.mcts.search.")}


def test_a_search_says_when_it_was_over() -> None:
    run = played(World(CHAIN), SearchRules(rules(500).budget))
    assert run.trace[-1]["tree"]["solved"]
    assert not any(told["tree"]["solved"] for told in run.trace[:-1])
