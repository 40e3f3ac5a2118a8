"""Scoring `weighted_means`: numbers worked out by hand, and laws."""

from collections.abc import Mapping, Sequence
from math import fsum
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.tree.rules.scoring import (
    LOWER,
    Comparison,
    MeansConstants,
    Metric,
    ScoringRules,
    best_config,
    round_relative,
    rule_mistakes,
    score_by_means,
    weighted_means,
)
from pipeline.tree.rules.sheet import CheckedRows, Defect, SheetRow
from pipeline.trust.distributions import t_quantile
from pipeline.trust.series import round_significant

SHARPE, RETURNS, VOLATILITY = Metric("sharpe"), Metric("returns"), Metric("volatility", LOWER)
DRAWDOWN = Metric("drawdown", guard=True)
RULES = ScoringRules("sharpe", (SHARPE, RETURNS, VOLATILITY, DRAWDOWN))


def rows(**columns: Sequence[float]) -> CheckedRows:
    """A complete sweep: a config for each of the values."""
    configs = zip(*columns.values(), strict=True)
    return CheckedRows(
        tuple(SheetRow(i, "", dict(zip(columns, values, strict=True))) for i, values in enumerate(configs)),
        (),
    )


def one(sharpe: float = 1, returns: float = 1, volatility: float = 1, drawdown: float = -1) -> CheckedRows:
    return rows(sharpe=[sharpe], returns=[returns], volatility=[volatility], drawdown=[drawdown])


def against(base: CheckedRows, candidate: CheckedRows, rules: ScoringRules = RULES) -> Comparison:
    return weighted_means(rules, base, candidate)


def test_a_score_worked_out_by_hand() -> None:
    base = rows(sharpe=[0.5, 1.5], returns=[10, 30], volatility=[4, 4], drawdown=[-0.2, -0.6])
    candidate = rows(sharpe=[1.0, 1.2], returns=[15, 35], volatility=[3, 4], drawdown=[-0.3, -0.54])
    found = against(base, candidate)
    # means        1.0 -> 1.1      20 -> 25       4 -> 3.5             -0.4 -> -0.42
    # deltas are   +0.1            +5             +0.5 (lower)         -0.02
    # relative     +0.1            +0.25          +0.125               -0.05
    # score        (1.5 * 0.1 + 0.25 + 0.125 - 0.05) / (1.5 + 1 + 1 + 1) = 0.475 / 4.5
    assert [round_relative(d.relative) for d in found.metrics] == [0.1, 0.25, 0.125, -0.05]
    assert [round_significant(d.delta) for d in found.metrics] == [0.1, 5, 0.5, -0.02]
    assert [d.weight for d in found.metrics] == [1.5, 1, 1, 1]
    assert found.score == 0.105555555556
    assert found.grade == "strong"
    assert found.should_explore
    assert found.reasons == ("net_improvement",)
    assert (found.better, found.worse, found.rows_used) == (3, 1, 2)
    assert round_significant(found.primary_delta) == 0.1


def test_no_metric_counts_for_more_than_the_clamp() -> None:
    # relatives: sharpe (9 - 1) / 1 = 8 -> 2; volatility (1 - 5) / 1 = -4 -> -2; score (1.5 * 2 - 2) / 4.5 = 1 / 4.5
    found = against(one(), one(sharpe=9, volatility=5))
    assert [d.relative for d in found.metrics] == [2, 0, -2, 0]
    assert found.score == 0.222222222222


def test_a_relative_is_to_the_size_of_a_negative_baseline() -> None:
    # from -4 to -3: delta +1, relative 1 / |-4| = +0.25
    found = against(one(sharpe=-4), one(sharpe=-3))
    assert found.metrics[0].relative == 0.25


@pytest.mark.parametrize(("new", "share"), [(0.001, 2), (-0.001, -2), (0, 0)])
def test_from_a_baseline_of_zero_every_change_counts_as_the_clamp(new: float, share: float) -> None:
    assert against(one(sharpe=0), one(sharpe=new)).metrics[0].relative == share


def test_a_baseline_that_is_zero_but_for_float_noise_is_zero() -> None:
    base = rows(sharpe=[0.1, 0.2, -0.3], returns=[1] * 3, volatility=[1] * 3, drawdown=[-1] * 3)
    assert fsum([0.1, 0.2, -0.3]) != 0
    better = rows(sharpe=[0.1, 0.2, -0.2], returns=[1] * 3, volatility=[1] * 3, drawdown=[-1] * 3)
    assert against(base, better).metrics[0].relative == 2


@pytest.mark.parametrize(("sharpe", "good"), [(0.95, True), (0.9499, False)])
def test_the_primary_metric_may_be_5_percent_worse_before_it_counts_as_regressed(sharpe: float, good: bool) -> None:
    # (0.95 - 1) / 1 is -0.050000000000000044 in floats: that must not decide
    found = against(one(), one(sharpe, returns=2, volatility=0.5))
    assert found.should_explore == good
    assert found.reasons == (("net_improvement",) if good else ("primary_metric_regressed",))


@pytest.mark.parametrize(("drawdown", "good"), [(-1.1, True), (-1.1001, False)])
def test_a_guard_may_be_10_percent_worse_before_it_vetoes(drawdown: float, good: bool) -> None:
    found = against(one(), one(1.5, drawdown=drawdown))
    assert found.should_explore == good
    assert found.reasons == (("net_improvement",) if good else ("risk_regressed:drawdown",))


def test_a_guard_vetoes_when_its_baseline_is_zero_too() -> None:
    assert against(one(drawdown=0), one(4, drawdown=-0.1)).reasons == ("risk_regressed:drawdown",)


def test_a_metric_that_is_no_guard_does_not_veto() -> None:
    assert against(one(), one(3, returns=0.5)).reasons == ("net_improvement",)


# Only the primary metric moves, to 1 + x: the score is 1.5 * x / 4.5 = x / 3.
GRADES = [
    (0.30, 0.10, "strong", True),
    (0.29, 0.096666666667, "promising", True),
    (0.09, 0.03, "promising", True),
    (0.0899, 0.029966666667, "mixed", False),
    (0.0, 0.0, "mixed", False),
    (-0.06, -0.02, "mixed", False),
    (-0.0601, -0.020033333333, "weak", False),
]


@pytest.mark.parametrize(("move", "total", "grade", "explore"), GRADES)
def test_grades_begin_at_their_scores(move: float, total: float, grade: str, explore: bool) -> None:
    found = against(one(), one(1 + move))
    assert (found.score, found.grade, found.should_explore) == (total, grade, explore)


# Scores far below .03: only the count of metrics that are better or worse can make one worth exploring.
COUNTS = [
    ({"sharpe": 1.001, "returns": 1.001}, 2, 0, True),
    ({"sharpe": 1.001}, 1, 0, False),
    ({"sharpe": 1.001, "returns": 1.001, "volatility": 0.999, "drawdown": -1.001}, 3, 1, True),
    ({"sharpe": 1.001, "returns": 1.001, "volatility": 1.001}, 2, 1, False),
    ({"sharpe": 1.001, "returns": 1.001, "volatility": 1.001, "drawdown": -1.001}, 2, 2, False),
]


@pytest.mark.parametrize(("new", "better", "worse", "explore"), COUNTS)
def test_many_small_improvements_are_a_signal(new: dict[str, float], better: int, worse: int, explore: bool) -> None:
    found = against(one(), one(**new))
    assert (found.better, found.worse, found.should_explore) == (better, worse, explore)
    assert found.reasons == (("net_improvement",) if explore else ("insufficient_signal",))


def test_all_that_speaks_against_a_candidate_is_told() -> None:
    found = against(one(), one(0.5, drawdown=-2))
    assert found.reasons == ("primary_metric_regressed", "risk_regressed:drawdown", "insufficient_signal")
    assert found.grade == "weak"


def test_a_candidate_is_judged_against_its_parent_and_against_the_root() -> None:
    found = score_by_means(RULES, candidate=one(1.2), parent=one(1.0), root=one(2.0))
    # 0.2 * 1.5 / 4.5; (1.2 - 2) / 2 = -0.4, * 1.5 / 4.5
    assert (found.parent.score, found.root.score) == (0.066666666667, -0.133333333333)
    assert found.root.reasons == ("primary_metric_regressed", "insufficient_signal")


def test_every_constant_can_be_given() -> None:
    base, candidate = one(), one(1.3, returns=1.1, volatility=1.2, drawdown=-1.1)
    default = against(base, candidate)
    # (1.5 * .3 + .1 - .2 - .1) / 4.5 = .25 / 4.5
    assert (default.score, default.grade, default.should_explore) == (0.055555555556, "promising", True)

    def verdict(**constants: Any) -> tuple[float | None, str, tuple[str, ...]]:
        found = against(base, candidate, RULES._replace(constants=MeansConstants()._replace(**constants)))
        return found.score, found.grade, found.reasons

    good = ("net_improvement",)
    # by hand (3 * .3 + .1 - .2 - .1) / 6, (1.5 * .3 + 2 * (.1 - .2 - .1)) / 7.5, (1.5 * .05 + .05 - .05 - .05) / 4.5
    assert verdict(primary_weight=3) == (0.116666666667, "strong", good)
    assert verdict(other_weight=2) == (0.006666666667, "mixed", ("insufficient_signal",))
    assert verdict(clamp=0.05)[0] == 0.005555555556
    assert verdict(guard_drop=0.09)[2] == ("risk_regressed:drawdown",)
    assert verdict(explore=0.06)[2] == ("insufficient_signal",)
    assert verdict(explore=0.06, lead=0)[2] == good
    assert verdict(explore=0.06, lead=0, least_better=3)[2] == ("insufficient_signal",)
    assert verdict(strong=0.05)[1] == "strong"
    assert verdict(promising=0.06)[1] == "mixed"
    assert verdict(promising=0.07, mixed=0.06)[1] == "weak"
    worse = against(base, one(0.99), RULES._replace(constants=MeansConstants(primary_drop=0.001)))
    assert "primary_metric_regressed" in worse.reasons


def test_weights_may_be_given_and_one_of_zero_only_guards() -> None:
    rules = ScoringRules("sharpe", (SHARPE._replace(weight=1), RETURNS._replace(weight=3), DRAWDOWN._replace(weight=0)))
    found = against(one(), one(1.2, 1.4, drawdown=-1.2), rules)
    # the score: (1 * .2 + 3 * .4) / 4
    assert (found.score, found.better, found.worse) == (0.35, 2, 0)
    assert found.reasons == ("risk_regressed:drawdown",)


def test_rows_that_are_not_complete_are_not_scored() -> None:
    broken = one(5)._replace(defects=(Defect(3, "sharpe", "'nan' is not a finite number"),))
    for base, candidate in ((broken, one()), (one(), broken), (one(), CheckedRows((), ()))):
        with pytest.raises(ValueError, match="is not complete"):
            against(base, candidate)
    two = rows(sharpe=[1, 1], returns=[1, 1], volatility=[1, 1], drawdown=[1, 1])
    with pytest.raises(ValueError, match="of different configs"):
        against(one(), two)


MISTAKES = [
    (ScoringRules("sharpe", (Metric("sharpe", weight=-1),)), "weight: must be a number from 0 on"),
    (ScoringRules("sharpe", (Metric("sharpe", weight=0),)), "weight: one metric at least must weigh more than 0"),
    (ScoringRules("sharpe", (SHARPE,), MeansConstants(clamp=0.1)), "score: a drop must be from 0 to below `clamp`"),
    (
        ScoringRules("sharpe", (SHARPE,), MeansConstants(primary_drop=-0.1)),
        "score: a drop must be from 0 to below `clamp`",
    ),
    (ScoringRules("sharpe", (SHARPE,), MeansConstants(mixed=0.5)), "score: must have strong >= promising >= mixed"),
]


@pytest.mark.parametrize(("rules", "what"), MISTAKES)
def test_rules_that_make_no_sense_are_told(rules: ScoringRules, what: str) -> None:
    assert what in rule_mistakes(rules)
    assert not rule_mistakes(RULES)


VALUES = st.sampled_from([-2.0, -1.0, -0.3, 0.0, 0.1, 0.2, 0.3, 0.95, 1.0, 1.1, 3.0])
COLUMNS = ("sharpe", "returns", "volatility", "drawdown")


@st.composite
def sweeps(draw: st.DrawFn, count: int) -> Mapping[str, list[float]]:
    return {name: draw(st.lists(VALUES, min_size=count, max_size=count)) for name in COLUMNS}


PAIRS = st.integers(1, 4).flatmap(lambda count: st.tuples(sweeps(count), sweeps(count)))
Pair = tuple[Mapping[str, list[float]], Mapping[str, list[float]]]


def verdict(found: Comparison) -> tuple[object, ...]:
    return found.score, found.grade, found.should_explore, found.reasons, found.better, found.worse


@given(PAIRS, st.sampled_from([1e-9, 0.1, 0.3, 3.0, 7.0, 1e9]))
def test_scaling_all_metrics_changes_no_verdict(pair: Pair, by: float) -> None:
    scaled = [rows(**{name: [x * by for x in values] for name, values in side.items()}) for side in pair]
    assert verdict(against(scaled[0], scaled[1])) == verdict(against(rows(**pair[0]), rows(**pair[1])))


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_configs_changes_no_verdict(pair: Pair, rng: Random) -> None:
    order = [*range(len(pair[0]["sharpe"]))]
    rng.shuffle(order)
    turned = [rows(**{name: [values[i] for i in order] for name, values in side.items()}) for side in pair]
    assert against(turned[0], turned[1]) == against(rows(**pair[0]), rows(**pair[1]))


@given(PAIRS, st.sampled_from([1 + 4e-16, 1 - 4e-16]))
def test_float_noise_changes_no_verdict(pair: Pair, noise: float) -> None:
    noisy = rows(**{name: [x * noise for x in values] for name, values in pair[1].items()})
    assert verdict(against(rows(**pair[0]), noisy)) == verdict(against(rows(**pair[0]), rows(**pair[1])))


@given(PAIRS)
def test_the_same_results_are_neither_better_nor_worse(pair: Pair) -> None:
    found = against(rows(**pair[0]), rows(**pair[0]))
    assert verdict(found) == (0, "mixed", False, ("insufficient_signal",), 0, 0)


@given(PAIRS)
def test_what_is_better_one_way_is_worse_the_other_way(pair: Pair) -> None:
    there, back = against(rows(**pair[0]), rows(**pair[1])), against(rows(**pair[1]), rows(**pair[0]))
    assert there.primary_delta == -back.primary_delta
    assert (there.better, there.worse) == (back.worse, back.better)


@given(PAIRS)
def test_reasons_always_explain_the_verdict(pair: Pair) -> None:
    found = against(rows(**pair[0]), rows(**pair[1]))
    assert found.reasons
    assert found.should_explore == (found.reasons == ("net_improvement",))


@given(PAIRS, st.sampled_from([0.1, 0.5, 1.0]))
def test_a_better_primary_metric_never_lowers_the_score(pair: Pair, more: float) -> None:
    assume(pair[0] != pair[1])
    improved = {**pair[1], "sharpe": [x + more for x in pair[1]["sharpe"]]}
    before, after = against(rows(**pair[0]), rows(**pair[1])), against(rows(**pair[0]), rows(**improved))
    assert (after.score or 0) >= (before.score or 0)


# -- the best config of both sides


def table(*rows: list[float]) -> dict[int, list[float]]:
    return dict(enumerate(rows))


def test_an_idea_may_be_worse_in_the_mean_and_better_at_its_best_config() -> None:
    parent = table([5.0] * 6, [4.0] * 6, [4.0] * 6)
    own = table([1.0] * 6, [5.4, 5.6, 5.5, 5.5, 5.6, 5.4], [1.0] * 6)
    found = best_config("higher", parent, own)
    assert (found.config, found.parent_config, found.disagrees) == (1, 0, True)
    assert (found.gain, found.same) == pytest.approx((0.5, 1.5))
    assert found.low is not None
    assert 0 < found.low < 0.5 < (found.high or 0)
    assert found.text.startswith("-1.833 in the mean, +0.5 at the best config 1 (+")
    assert best_config("higher", table([1.0]), table([2.0])).text.endswith("(how sure that is is not known)")
    alike = table([0.0] * 9), table([1.0, 1.1, 1.3, 1.2, 1.1, 0.9, 0.8, 0.9, 1.0])
    assert (best_config("higher", *alike).low or 0) > (best_config("higher", *alike, ordered=True).low or 9)


NUMBERS = st.lists(st.lists(st.floats(-9, 9), min_size=8, max_size=8), min_size=1, max_size=4)


@given(NUMBERS, st.integers(0, 9), st.booleans())
def test_the_best_config_is_the_same_way_round_whichever_way_is_better(rows: Any, seed: int, repeats: bool) -> None:
    rng = Random(seed)
    parent, own = table(*rows), table(*([x + rng.gauss(0, 1) for x in row] for row in rows))
    groups = [0, 0, 0, 0, 1, 1, 1, 1] if repeats else None
    up = best_config("higher", parent, own, repeats=groups)
    turned = ({c: [-x for x in row] for c, row in side.items()} for side in (parent, own))
    down = best_config("lower", *turned, repeats=groups)
    assert (up.config, up.gain, up.low, up.high, up.mean_gain) == (
        down.config, down.gain, down.low, down.high, down.mean_gain,
    )  # fmt: skip
    assert up.low is None or up.low <= up.gain <= (up.high or 0)


def test_the_interval_of_the_best_configs_holds_though_the_best_were_picked() -> None:
    rng, held, naive = Random(3), 0, 0
    for _ in range(300):
        parent, own = table(*[[0.0] * 10] * 6), table(*([rng.gauss(0, 1) for _ in range(10)] for _ in range(6)))
        found = best_config("higher", parent, own)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0 <= found.high
        half = (found.high - found.low) / 2 / t_quantile(1 - 0.025 / 36, 9) * t_quantile(0.975, 9)
        naive += abs(found.gain) <= half
    assert held >= 285
    assert naive < 270  # of one pair alone, as if it had not been picked
