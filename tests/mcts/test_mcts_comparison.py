"""What the scenarios of a run came to: figures with intervals over seeds, pairs, curves, the table."""

import csv
from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.mcts_comparisons import GOALS, SCENARIOS, TEAM, Record, compared, figures, made_up, refused, search

from pipeline.mcts.report.compare import comparison_headline, robustness_lines
from pipeline.mcts.report.figures import (
    DIFFERENCE_BOUNDS,
    SHARE_BOUNDS,
    mean_over_seeds,
    ratio_over_seeds,
    searches_csv,
)

TWO = {"baseline": TEAM, "damage-20": {**TEAM, "block": {"fraction": 0.2}}}
CALLS = st.one_of(st.none(), st.integers(1, 6))


@st.composite
def runs(draw: st.DrawFn, fewest: int = 1) -> list[Record]:
    """Of two scenarios; calls from few values, so that there are ties."""
    seeds = range(1, 1 + draw(st.integers(fewest, 3)))
    goals = "abc"[: draw(st.integers(1, 3))]
    made = [search(goal, scenario, seed, draw(CALLS)) for scenario in TWO for goal in goals for seed in seeds]
    wrong = draw(st.sets(st.integers(0, len(made) - 1), max_size=1))
    return [each | {"verified": False} if at in wrong else each for at, each in enumerate(made)]


def told(searches: list[Record], scenarios: dict[str, Record] = TWO) -> Record:
    return compared(searches, scenarios)


def estimates(part: Any) -> Iterator[Record]:
    """All that there are in a comparison."""
    if isinstance(part, dict):
        if "mean" in part and "of" in part:
            yield part
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from estimates(each)


def test_an_interval_is_students_over_one_value_for_each_seed() -> None:
    found = mean_over_seeds({1: 0.4, 2: 0.5, 3: 0.6}, SHARE_BOUNDS)
    by = 4.302653 * 0.1 / 3**0.5
    assert found["mean"] == 0.5
    assert (found["low"], found["high"]) == pytest.approx((0.5 - by, 0.5 + by), abs=2e-6)
    assert (found["same"], found["of"]) == (False, {"1": 0.4, "2": 0.5, "3": 0.6})


def test_an_interval_ends_where_such_numbers_end() -> None:
    found = mean_over_seeds({1: 0.0, 2: 1.0}, SHARE_BOUNDS)
    assert (found["low"], found["mean"], found["high"]) == (0, 0.5, 1)
    assert mean_over_seeds({1: -1.0, 2: 1.0}, DIFFERENCE_BOUNDS)["low"] == -1


def test_seeds_that_agree_are_said_to_agree() -> None:
    found = mean_over_seeds({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, SHARE_BOUNDS)
    assert (found["low"], found["mean"], found["high"], found["same"]) == (0.333333, 0.333333, 0.333333, True)


def test_from_one_seed_there_is_no_interval_and_from_none_no_mean() -> None:
    one, none = mean_over_seeds({7: 0.5}, SHARE_BOUNDS), mean_over_seeds({}, SHARE_BOUNDS)
    assert (one["mean"], one["low"], one["high"], one["same"]) == (0.5, None, None, False)
    assert (none["mean"], none["low"], none["high"], none["of"]) == (None, None, None, {})


@given(st.dictionaries(st.integers(1, 5), st.floats(0.01, 100), min_size=2))
def test_ratios_the_other_way_round_are_the_inverse(values: dict[int, float]) -> None:
    found, other = ratio_over_seeds(values), ratio_over_seeds({seed: 1 / value for seed, value in values.items()})
    assert found["mean"] == pytest.approx(prod(values.values()) ** (1 / len(values)), abs=1e-6)
    assert other["mean"] == pytest.approx(1 / found["mean"], rel=1e-3)
    assert found["low"] <= found["mean"] <= found["high"]


@given(runs(), st.randoms())
@settings(max_examples=40)
def test_the_order_of_the_records_changes_nothing(searches: list[Record], random: Any) -> None:
    mixed = random.sample(searches, len(searches))
    assert told(mixed) == told(searches)
    assert searches_csv(figures(mixed)) == searches_csv(figures(searches))


@given(runs())
@settings(max_examples=40)
def test_rows_that_are_no_goals_are_named_and_change_nothing_else(searches: list[Record]) -> None:
    found = told([*searches, *(refused("odd", name, seed) for name in TWO for seed in (1, 2, 9))])
    assert found.pop("refused") == [{"goal": "odd", "error": "it is false, by `decide`"}]
    assert found == {name: part for name, part in told(searches).items() if name != "refused"}


def test_rows_that_are_malformed_are_named_too_by_their_line_if_they_have_no_id() -> None:
    malformed = [{"line": 3, "id": "bad", "why": "no goal"}, {"line": 7, "id": "", "why": "no id"}]
    assert compared([refused()], TWO, malformed)["refused"] == [
        {"goal": "bad", "error": "no goal"},
        {"goal": "line 7", "error": "no id"},
        {"goal": "odd", "error": "it is false, by `decide`"},
    ]


def test_with_one_seed_nothing_has_an_interval() -> None:
    found = list(estimates(told(made_up(seeds=[4]), SCENARIOS)))
    assert len(found) > 50
    assert {(each["low"], each["high"], each["same"]) for each in found} == {(None, None, False)}


@given(runs(fewest=2))
@settings(max_examples=40)
def test_every_mean_lies_in_its_interval(searches: list[Record]) -> None:
    for each in estimates(told(searches)):
        assert each["low"] is None or each["low"] <= each["mean"] <= each["high"]
        assert (each["low"] is None) == (len(each["of"]) < 2)


def test_solved_are_only_proofs_that_held() -> None:
    searches = [
        search("a", calls=4), search("b", calls=9, verified=False, error="sorry"), search("c", calls=None),
        search("d", calls=None, status="dead"),
    ]  # fmt: skip
    found = told(searches, {"baseline": TEAM})["scenarios"]["baseline"]
    assert found["outcomes"] == {"solved": 1, "open": 1, "dead": 1, "unverified": 1}
    assert (found["share"]["mean"], found["to_proof"]["calls"]["median"]) == (0.25, 4)
    assert [(each["goal"], each["outcome"], each["error"]) for each in found["wrong"]] == [
        ("b", "unverified", "sorry"),
    ]  # fmt: skip
    assert comparison_headline(told(searches, {"baseline": TEAM})) == (
        "4 goals, 1 seed: baseline 1 solved; proofs that did not hold: 1"
    )


def test_what_was_not_solved_counts_in_calls_for_a_goal_and_for_a_proof_but_not_up_to_the_proof() -> None:
    searches = [search("a", seed=1, calls=10), search("b", seed=1, calls=None)]
    searches += [search("a", seed=2, calls=20, to_proof={"iterations": 19, "calls": 18}), search("b", seed=2, calls=40)]
    found = told(searches, {"baseline": TEAM})["scenarios"]["baseline"]
    assert found["to_proof"]["calls"]["median"] == 18
    assert found["to_proof"]["iterations"]["mean"]["of"] == {"1": 10, "2": 29.5}
    assert found["spent"]["calls"]["of"] == {"1": 105, "2": 30}
    assert found["calls_per_proof"]["of"] == {"1": 210, "2": 30}


def test_calls_for_a_proof_are_not_told_where_a_seed_has_none() -> None:
    searches = [search("a", seed=1, calls=10), search("a", seed=2, calls=None)]
    found = told(searches, {"baseline": TEAM})["scenarios"]["baseline"]
    assert found["calls_per_proof"]["mean"] is None
    assert found["to_proof"]["calls"]["mean"]["of"] == {"1": 10}


def test_iterations_are_told_apart_by_what_they_were_spent_on() -> None:
    reasons = {"expanded": 2, "blocked": 3, "delayed": 2, "no_expansion": 3, "dead_node": 10}
    searches = [search(iterations=20, reasons=reasons, idle=1), search("b", iterations=0, reasons={}, idle=0)]
    found = told(searches, {"baseline": TEAM})["scenarios"]["baseline"]["iterations"]
    assert (found["all"], found["nothing"]["mean"], found["idle"]["mean"]) == (20, 0.3, 0.05)
    assert {reason: each["mean"] for reason, each in found["reasons"].items() if each["mean"]} == {
        "expanded": 0.1, "blocked": 0.15, "delayed": 0.1, "no_expansion": 0.15, "dead_node": 0.5,
    }  # fmt: skip


def test_scenarios_are_paired_goal_by_goal_and_seed_by_seed() -> None:
    searches = [
        search("a", "baseline", 1, 10), search("a", "damage-20", 1, 40), search("b", "baseline", 1, 10),
        search("b", "damage-20", 1, None), search("a", "baseline", 2, None), search("a", "damage-20", 2, 9),
        search("b", "baseline", 2, 20), search("b", "damage-20", 2, 20),
    ]  # fmt: skip
    found = told(searches)["paired"]["damage-20"]
    assert (found["pairs"], found["both"], found["neither"]) == (4, 2, 0)
    assert found["only_here"] == [{"goal": "a", "seed": 2}]
    assert found["only_there"] == [{"goal": "b", "seed": 1}]
    assert found["difference"]["of"] == {"1": -0.5, "2": 0.5}
    assert (found["calls_ratio"]["mean"], found["calls_ratio"]["of"]) == (2, {"1": 4, "2": 1})


@given(runs())
@settings(max_examples=40)
def test_the_other_way_round_a_pair_is_its_mirror(searches: list[Record]) -> None:
    found = told(searches)["paired"]["damage-20"]
    other = told(searches, dict(reversed(TWO.items())))["paired"]["baseline"]
    assert (found["only_here"], found["only_there"]) == (other["only_there"], other["only_here"])
    assert (found["both"], found["neither"]) == (other["both"], other["neither"])
    assert found["both"] + found["neither"] + len(found["only_here"] + found["only_there"]) == found["pairs"]
    assert found["difference"]["of"] == {seed: -value for seed, value in other["difference"]["of"].items()}
    if found["both"]:
        assert found["calls_ratio"]["mean"] == pytest.approx(1 / other["calls_ratio"]["mean"], rel=1e-4)


def test_lines_of_robustness_are_scenarios_that_differ_in_the_fraction_alone() -> None:
    assert robustness_lines(SCENARIOS) == {
        "damage": [(0, "baseline"), (0.1, "damage-10"), (0.3, "damage-30")],
        "adapt": [(0, "baseline"), (0.1, "adapt-10"), (0.3, "adapt-30")],
    }


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"agents": 8}, False),
        ({"virtual_loss": 2.0}, False),
        ({"virtual_loss": 1.0}, True),
        ({"delay": {"prob": 0.1, "duration": 2}}, False),
        ({"delay": {"prob": 0.0, "duration": 2}}, True),
        ({"reroute": 3}, True),
        ({"block": {"fraction": 0.0, "duration": 5}}, True),
        ({"block": {"fraction": 0.0, "seed": 5}}, True),
    ],
)
def test_where_nothing_is_blocked_only_what_is_beside_blocks_counts(other: Record, line: bool) -> None:
    found = robustness_lines({"none": {**TEAM, **other}, "half": {**TEAM, "block": {"fraction": 0.5}}})
    assert found == ({"half": [(0, "none"), (0.5, "half")]} if line else {})


def test_a_line_has_two_points_and_blocks_of_one_kind() -> None:
    block = {"fraction": 0.1}
    assert not robustness_lines(
        {"a-10": {**TEAM, "block": block}, "a-30": {**TEAM, "block": {"fraction": 0.3, "seed": 0}}}
    )
    assert not robustness_lines({"a-10": {**TEAM, "block": block}})
    assert not robustness_lines(
        {"a-10": {**TEAM, "block": block}, "a-30": {**TEAM, "block": {"fraction": 0.3, "duration": 9}}}
    )


@pytest.mark.parametrize(
    ("names", "titles"),
    [
        (["damage-10", "damage-12", "adapt-10", "adapt-12"], ["damage", "adapt"]),
        (["damage-4-10", "damage-4-30", "x", "y"], ["damage-4", "x"]),
        (["d-10", "d-30", "d-10-around", "d-30-around"], ["d-10", "d-10-around"]),
        (["damage_0.1", "damage_0.3", "10", "30"], ["damage", "10"]),
        (["x1", "x2", "x", "y"], ["x1", "x"]),
    ],
)
def test_a_line_is_called_what_its_scenarios_begin_with_or_else_as_the_first(
    names: list[str], titles: list[str]
) -> None:
    blocks = [{"fraction": 0.1}, {"fraction": 0.3}, {"fraction": 0.1, "seed": 5}, {"fraction": 0.3, "seed": 5}]
    scenarios = {name: {**TEAM, "block": block} for name, block in zip(names, blocks, strict=True)}
    assert list(robustness_lines(scenarios)) == titles


def test_a_robustness_curve_has_the_figures_of_its_scenarios() -> None:
    found = told(made_up(), SCENARIOS)
    for point in found["robustness"]["damage"]:
        scenario = found["scenarios"][point["scenario"]]
        assert (point["share"], point["calls"]) == (scenario["share"], scenario["spent"]["calls"])


@given(runs())
@settings(max_examples=40)
def test_what_is_solved_within_so_many_calls_only_grows_and_ends_with_what_is_solved(searches: list[Record]) -> None:
    found = told(searches)
    within, counted = found["within"], [each for each in searches if each["scenario"] == "baseline"]
    times = [each["to_proof"]["calls"] for each in counted if each["verified"] and each["status"] == "solved"]
    expected = [[calls, sum(time <= calls for time in times) / len(counted)] for calls in sorted(set(times))]
    assert within["steps"]["baseline"] == [[calls, pytest.approx(share, abs=1e-6)] for calls, share in expected]
    if within["at"]:
        assert within["at"] == sorted(set(within["at"]))
        assert within["shares"]["baseline"][-1] == found["scenarios"]["baseline"]["share"]


def test_shares_are_told_from_just_before_the_first_proof_to_the_last_call() -> None:
    found = told([search("a", calls=35), search("b", calls=220), search("c", calls=None)], {"baseline": TEAM})
    assert found["within"]["at"] == [30, 100, 220]
    assert [each["mean"] for each in found["within"]["shares"]["baseline"]] == [0, 0.333333, 0.666667]


def test_the_table_has_a_row_for_each_search() -> None:
    searches = [
        search("b", seed=10, calls=7), search("b", seed=2, calls=7, verified=False, error="a, b\nc"),
        search("a", "damage-20", calls=None, reasons={"blocked": 5}, idle=3), refused(),
    ]  # fmt: skip
    rows = list(csv.DictReader(searches_csv(figures(searches)).splitlines(keepends=True)))
    assert [(row["scenario"], row["goal"], row["seed"]) for row in rows] == [
        ("baseline", "b", "2"), ("baseline", "b", "10"), ("baseline", "odd", "1"), ("damage-20", "a", "1"),
    ]  # fmt: skip
    assert [row["status"] for row in rows] == ["unverified", "solved", "refused", "open"]
    assert [row["solved"] for row in rows] == ["0", "1", "0", "0"]
    assert [row["calls_to_proof"] for row in rows] == ["", "7", "", ""]
    assert (rows[0]["error"], rows[3]["blocked"], rows[3]["delayed"]) == ("a, b\nc", "5", "0")
    assert [row["idle"] for row in rows] == ["1", "1", "0", "3"]


def test_the_headline_has_the_goals_solved_with_a_seed_on_average() -> None:
    searches = [search(goal, scenario, seed, 5) for goal in GOALS[:2] for scenario in TWO for seed in (1, 2)]
    searches[-1] = search(GOALS[1], "damage-20", 2, None)
    assert comparison_headline(told(searches)) == "2 goals, 2 seeds: baseline 2.0 solved, damage-20 1.5"
    assert comparison_headline(told([refused()])) == "0 goals, 0 seeds: baseline 0 solved, damage-20 0"
