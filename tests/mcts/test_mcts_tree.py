"""The maths of the tree: what is tried next, what a visit changes, what is one goal and what is two."""

from math import ceil, inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.mcts_worlds import World, maths, played, rules, worlds

from pipeline.mcts.search.nodes import DEAD, OPEN, SOLVED, GoalNode, visits_for_next
from pipeline.mcts.search.records import (
    PRODUCT,
    UCT,
    Budget,
    ExpandOutcome,
    SearchRules,
    SelectionRules,
    Subgoal,
    TacticAttempt,
    WeightedMove,
    order_moves,
)
from pipeline.mcts.search.tree import SearchTree

WIDE = SelectionRules(widen=1e9)


def moves(*tactics: str) -> tuple[WeightedMove, ...]:
    return tuple(WeightedMove(tactic) for tactic in tactics)


def planted(by: SelectionRules = WIDE, *tactics: str) -> SearchTree:
    return SearchTree(by, Subgoal("root", moves=moves(*tactics or ("a", "b", "c"))))


def try_at(tree: SearchTree, node: GoalNode, goals: tuple[Subgoal, ...] = (), error: str = "") -> None:
    """The next of its moves, or the only one if it had none yet; without a visit."""
    taken = tree.take(node, 1)
    tree.land(
        node, taken, ExpandOutcome(1, (TacticAttempt(*(taken or "t"), goals, error),), () if taken else moves("t"))
    )


def visit(tree: SearchTree, *numbers: int) -> None:
    """The way that is given by the numbers of its actions."""
    path = [tree.actions[number] for number in numbers]
    tree.backup(path, path[-1].children[0] if path else tree.root)


def of(tree: SearchTree, key: str) -> GoalNode:
    return next(node for node in tree.nodes if node.key == key)


def test_moves_are_tried_by_prior_and_ties_as_they_came() -> None:
    listed = [WeightedMove("a", 1.0), WeightedMove("b", 2.0), WeightedMove("c", 1.0), WeightedMove("a", 3.0)]
    assert [move.tactic for move in order_moves(listed)] == ["a", "b", "c"]


@given(st.integers(1, 40), st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([0.5, 0.8]), st.integers(1, 500))
def test_a_goal_may_have_as_many_actions_as_its_visits_to_the_power_alpha(
    actions: int, widen: float, alpha: float, visits: int
) -> None:
    if abs(widen * visits**alpha - actions) > 1e-6:
        assert (visits > visits_for_next(SelectionRules(widen=widen, alpha=alpha), actions)) == (
            actions < ceil(widen * visits**alpha)
        )


def test_a_goal_gets_its_next_tactic_as_its_visits_grow() -> None:
    table = {"root": {f"t{n}": (f"child{n}",) for n in range(9)}}
    table |= {f"child{n}": {"go": (f"child{n}",)} | {f"x{m}": (f"{n}.{m}",) for m in range(40)} for n in range(9)}
    table |= {f"{n}.{m}": {f"y{k}": (f"{n}.{m}.{k}",) for k in range(99)} for n in range(9) for m in range(40)}
    world = World(table)  # type: ignore[arg-type]
    run = played(world._replace(table=Endless(table)), rules(400))
    assert [len(run.tree.root.live), run.tree.root.visits] == [9, 400]
    assert len(played(world._replace(table=Endless(table)), rules(30)).tree.root.live) == 6  # more than 25, up to 36


class Endless(dict):  # type: ignore[type-arg]
    def __missing__(self, goal: str) -> dict[str, tuple[str, ...]]:
        return {f"z{n}": (f"{goal}.{n}",) for n in range(3)}


def test_tactics_that_fail_take_no_room() -> None:
    tree = planted(SelectionRules(widen=1.0, alpha=0.01), "a", "b", "c")
    for _ in range(2):
        assert tree.select().opens
        try_at(tree, tree.root, error="tactic")
        visit(tree)
    try_at(tree, tree.root, (Subgoal("x", moves=moves("a")),))
    visit(tree)
    assert tree.select().node.key == "x"


def test_an_action_is_worth_what_its_worst_goal_is_or_all_together() -> None:
    goals = (Subgoal("x", value=0.5), Subgoal("y", value=0.25))
    for by, worth in ((WIDE, 0.25), (WIDE._replace(backup=PRODUCT), 0.125)):
        tree = planted(by)
        try_at(tree, tree.root, goals)
        assert tree.actions[0].value == tree.root.value == worth


def test_a_goal_is_worth_what_the_action_visited_most_is() -> None:
    tree = planted()
    try_at(tree, tree.root, (Subgoal("x", value=0.3),))
    try_at(tree, tree.root, (Subgoal("y", value=0.6),))
    assert tree.root.value == 0.6  # a tie in visits: the higher value
    visit(tree, 0)
    assert tree.root.value == 0.3
    visit(tree, 1)
    visit(tree, 1)
    assert tree.root.value == 0.6
    visit(tree, 0)
    visit(tree, 1)
    visit(tree, 1)
    visit(tree, 0)  # that is one fewer still
    assert tree.root.value == 0.6
    try_at(tree, of(tree, "y"), error="tactic")  # it is dead, and so is the action
    assert tree.root.value == 0.3


def test_of_actions_of_which_as_much_is_known_the_earlier_is_the_best() -> None:
    tree = planted()
    for key in ("x", "y"):
        try_at(tree, tree.root, (Subgoal(key),))
        assert tree.root.best is tree.actions[0]
    visit(tree, 1)
    visit(tree, 0)
    assert tree.root.best is tree.actions[0]


def test_of_several_goals_the_one_least_hoped_for_comes_first() -> None:
    tree = planted(WIDE, "a")
    try_at(tree, tree.root, (Subgoal("x", value=0.5), Subgoal("y", value=0.2), Subgoal("z", value=0.2)))
    visit(tree)
    assert tree.select().node.key == "y"
    try_at(tree, of(tree, "y"))
    assert tree.select().node.key == "z"


def test_each_move_that_comes_to_nothing_takes_its_share_of_hope() -> None:
    tree = planted(WIDE, "a", "b", "c", "d")
    try_at(tree, tree.root, error="tactic")
    assert tree.root.value == 0.375
    try_at(tree, tree.root, (Subgoal("x", moves=()),))  # nothing can be done there
    assert tree.root.value == 0.25


def test_goals_are_one_only_if_key_and_names_are_the_same() -> None:
    tree = planted()
    same, other, named = Subgoal("x", "p q"), Subgoal("y", "p q"), Subgoal("x", "q p")
    try_at(tree, tree.root, (same, other, named, same))
    children = tree.actions[0].children
    assert len({child.number for child in children}) == 3
    assert children[0] is children[3]


def test_a_conjunction_is_not_proved_by_one_of_its_sides() -> None:
    for left, right in (("p", "q"), ("q", "p")):
        table = {"p and q": {"constructor": (left, right)}, "p": {"hp": ()}, "q": {"hp": None}}
        run = played(World(table), rules())
        assert [of(run.tree, key).status for key in ("q", "p and q")] == [DEAD, DEAD]
        assert not any(told["tree"]["solved"] for told in run.trace)


def test_the_sides_of_a_conjunction_that_look_alike_are_both_needed() -> None:
    tree = planted(WIDE, "constructor")
    try_at(tree, tree.root, (Subgoal("p", "h"), Subgoal("p", "k")))
    try_at(tree, of(tree, "p"))
    assert of(tree, "p").status == SOLVED
    assert tree.root.status == OPEN


def test_one_goal_that_is_needed_twice_is_proved_once() -> None:
    run = played(World({"p and p": {"constructor": ("p", "p")}, "p": {"hp": ()}}), rules())
    assert [node.status for node in run.tree.nodes] == [SOLVED, SOLVED]


def test_what_is_solved_is_so_at_once_by_every_way_that_leads_to_it() -> None:
    tree = planted(WIDE, "a", "b")
    try_at(tree, tree.root, (Subgoal("x"), Subgoal("y")))
    for key in ("x", "y"):
        try_at(tree, of(tree, key), (Subgoal("z"),))
    try_at(tree, of(tree, "z"))
    assert {node.status for node in tree.nodes} == {SOLVED}


def test_what_needed_a_goal_that_is_solved_is_worth_what_is_left() -> None:
    tree = planted(WIDE, "a")
    try_at(tree, tree.root, (Subgoal("x", value=0.2), Subgoal("y", value=0.7)))
    try_at(tree, of(tree, "x"))
    assert tree.root.value == 0.7


def test_what_is_dead_is_so_at_once_by_every_way_that_leads_to_it() -> None:
    tree = planted(WIDE, "a", "b")
    try_at(tree, tree.root, (Subgoal("x"),))
    try_at(tree, tree.root, (Subgoal("x"), Subgoal("y")))
    try_at(tree, of(tree, "x"), error="tactic")
    assert [node.status for node in tree.nodes] == [DEAD, DEAD, OPEN]


def test_an_action_that_leaves_its_own_goal_is_dead() -> None:
    tree = planted()
    try_at(tree, tree.root, (Subgoal("x"), Subgoal("root")))
    assert [tree.actions[0].why, len(tree.nodes)] == ["cycle", 1]


def test_an_action_that_leads_where_another_has_led_is_dead() -> None:
    tree = planted()
    try_at(tree, tree.root, (Subgoal("x"), Subgoal("y")))
    try_at(tree, tree.root, (Subgoal("y"), Subgoal("x")))
    try_at(tree, tree.root, (Subgoal("x"), Subgoal("y")))
    assert [action.why for action in tree.actions] == ["", "", "same"]


def test_a_goal_that_is_reached_in_a_circle_may_still_be_proved_in_another_way() -> None:
    # y leads back to x, yet x has a proof of its own, and y's proof may rest on it
    table = {"root": {"split": ("x", "y")}, "x": {"a": ("y",), "b": ()}, "y": {"c": ("x",)}}
    for values in ({"x": 0.1}, {"y": 0.1}):
        assert played(World(table, values), rules()).tree.root.status == SOLVED


def test_goals_that_rest_on_one_another_alone_are_dead() -> None:
    table = {"root": {"a": ("x",)}, "x": {"b": ("y",)}, "y": {"c": ("x",), "d": ("root",), "e": None}}
    run = played(World(table), rules())
    assert {node.status for node in run.tree.nodes} == {DEAD}
    assert run.trace[-1]["reason"] == "dead_node"
    assert len(run.trace) < 12


def test_a_circle_is_dead_whatever_else_it_would_need() -> None:
    table = {"root": {"a": ("x",)}, "x": {"b": ("y", "z")}, "y": {"c": ("x",)}, "z": {"d": ()}}
    run = played(World(table, {"y": 0.1}), rules(30))
    assert [node.status for node in run.tree.nodes] == [DEAD, DEAD, DEAD, OPEN]


def test_a_circle_with_a_way_out_is_looked_at_again_when_the_way_out_is_none() -> None:
    table = {"root": {"a": ("x",)}, "x": {"b": ("y",), "f": None, "g": None}, "y": {"c": ("x",)}}
    run = played(World(table), rules(30, maths=SelectionRules(widen=0.5)))
    reasons = [told["reason"] for told in run.trace if told["node"]["key"] == "y"]
    assert reasons == ["expanded", *["no_expansion"] * 3, "dead_node"]
    assert run.tree.root.status == DEAD


@given(worlds(), maths())
def test_no_visit_is_lost(world: World, by: SelectionRules) -> None:
    run = played(world, rules(60, maths=by))
    counted = [0] * len(run.tree.nodes)
    for told in run.trace:
        for number in told["selected_path"]:
            counted[number] += 1
    assert [node.visits for node in run.tree.nodes] == counted


@given(worlds(), maths())
def test_a_goal_was_visited_once_for_each_time_that_an_action_of_it_was_or_that_it_was_the_last(
    world: World, by: SelectionRules
) -> None:
    run = played(world, rules(60, maths=by))
    for node in run.tree.nodes:
        last = sum(told["node"]["id"] == node.number for told in run.trace)
        passed = sum(action.visits - 1 for action in run.tree.actions if action.owner is node)
        assert node.visits == last + passed


@given(worlds(), maths())
def test_the_best_action_is_kept_without_looking_at_all(world: World, by: SelectionRules) -> None:
    for node in played(world, rules(60, maths=by)).tree.nodes:
        if node.status == OPEN and node.live:
            best = max(node.live, key=lambda action: (action.visits, action.value, -action.number))
            assert best.visits == node.best.visits  # type: ignore[union-attr]
            assert node.value == node.best.value  # type: ignore[union-attr]


def test_uct_scores_by_the_root_of_two() -> None:
    tree = planted(SelectionRules(UCT, sqrt(2), widen=2.0, alpha=1e-9), "a", "b")
    try_at(tree, tree.root, (Subgoal("x", value=0.9),))
    visit(tree)
    try_at(tree, tree.root, (Subgoal("y", value=0.2),))
    visit(tree)
    times = 0
    while tree.select().node.key == "x":
        visit(tree, 0)
        times += 1
    assert times == 2  # 0.9 + sqrt(2 ln 4 / 3) is less than 0.2 + sqrt(2 ln 4), by a little


def test_priors_count_by_their_ratio_only() -> None:
    def chosen(scale: float) -> list[str]:
        world = World(Endless(root={"a": ("x",), "b": ("y",)}), priors={f"z{n}": scale * (n + 1) for n in range(3)})
        run = played(world._replace(priors={**world.priors, "a": scale, "b": 3 * scale}), rules(50))
        return [told["node"]["key"] for told in run.trace]

    assert chosen(1.0) == chosen(8.0)


@pytest.mark.parametrize("value", [0.0, 1.0, inf])
def test_a_goal_that_is_told_as_proved_or_hopeless_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="only between 0 and 1"):
        SearchTree(WIDE, Subgoal("root", value=value))


def test_a_prior_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' has the prior 0"):
        SearchTree(WIDE, Subgoal("root", moves=(WeightedMove("a", 0.0),)))


def test_an_answer_about_what_was_not_asked_is_refused() -> None:
    tree = planted(WIDE, "a", "b")
    with pytest.raises(ValueError, match="'c' was not to be tried"):
        tree.land(tree.root, tree.take(tree.root, 1), ExpandOutcome(1, (TacticAttempt("c"),)))


def test_more_moves_may_come_with_an_answer() -> None:
    """For what ran out of time, say, to be tried again with more of it."""
    tree = planted(WIDE, "a")
    tree.land(
        tree.root, tree.take(tree.root, 1), ExpandOutcome(1, (TacticAttempt("a", error="timeout"),), moves("a slowly"))
    )
    assert tree.root.status == OPEN
    assert tree.take(tree.root, 1) == ("a slowly",)


def test_rules_have_defaults_that_are_puct_and_the_minimum() -> None:
    assert SearchRules(Budget(1)).maths == SelectionRules("puct", 1.5, "minimum", 1.0, 0.5)
