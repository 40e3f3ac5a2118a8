"""What follows from evidence: verdicts, guards, the alpha of a run; and what comes before it, blocks."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import ROOT

from pipeline.trust.evidence import (
    DEGENERATE,
    IDENTICAL,
    INDECISIVE,
    PROMOTED,
    REJECTED,
    STOPPED,
    TESTED,
    UNDECIDABLE,
    Evidence,
    depth_alpha,
    verdict,
)
from pipeline.trust.noninferiority import FAILED, PASSED, UNDECIDED, judge_guard
from pipeline.trust.series import differences, reduce_configs

FOUND = Evidence(
    TESTED, blocks=10, mean=0.3, se=0.1, t=3.0, p=0.01, lower=0.05, upper=0.5, estimate=0.2, detectable=0.35
)


@pytest.mark.parametrize(
    ("changed", "smallest", "expected"),
    [
        ({}, 0.0, (PROMOTED, "gain")),
        ({"p": 0.05}, 0.3, (PROMOTED, "gain")),
        ({"p": 0.050001}, 0.0, (INDECISIVE, "could_be_chance")),
        ({}, 0.31, (UNDECIDABLE, "too_few_blocks", "below_smallest_effect")),
        ({}, 0.4, (INDECISIVE, "below_smallest_effect")),
        ({}, 0.6, (REJECTED, "no_gain_worth_having")),
        ({"p": 0.4}, 0.1, (UNDECIDABLE, "too_few_blocks", "could_be_chance")),
        ({"p": 0.4, "detectable": 0.1}, 0.1, (INDECISIVE, "could_be_chance")),
        ({"p": 0.9, "mean": -0.4, "upper": 0.0}, 0.0, (REJECTED, "no_gain_worth_having")),
        ({"p": 0.9, "mean": -0.4, "upper": 0.01}, 0.0, (INDECISIVE, "could_be_chance", "below_smallest_effect")),
        ({"blocks": 4}, 0.0, (UNDECIDABLE, "too_few_blocks")),
        ({"blocks": 5}, 0.0, (PROMOTED, "gain")),
        ({"standing": IDENTICAL, "p": 1.0}, 0.0, (REJECTED, "identical")),
        ({"standing": STOPPED, "p": 1.0, "blocks": 4}, 0.0, (REJECTED, "stopped_early")),
        ({"standing": DEGENERATE, "p": 1.0}, 0.0, (UNDECIDABLE, "degenerate")),
        ({"standing": DEGENERATE, "p": 1.0}, 0.4, (REJECTED, "degenerate", "no_gain_worth_having")),
        ({"standing": DEGENERATE, "p": 1.0, "mean": -0.3}, 0.0, (REJECTED, "degenerate", "no_gain_worth_having")),
        ({"standing": DEGENERATE, "p": 1.0, "blocks": 4}, 0.0, (UNDECIDABLE, "too_few_blocks")),
    ],
)
def test_a_verdict_says_what_follows_and_why(
    changed: dict[str, object], smallest: float, expected: tuple[str, ...]
) -> None:
    found = verdict(FOUND._replace(**changed), 0.05, smallest)  # type: ignore[arg-type]
    assert (found.verdict, *found.reasons) == expected


numbers = st.floats(-1, 1).map(lambda x: round(x, 1))


@given(
    st.builds(Evidence, st.sampled_from([TESTED, IDENTICAL, DEGENERATE, STOPPED]), st.integers(1, 9), *[numbers] * 8),
    numbers,
)
def test_only_what_was_tested_on_enough_blocks_and_is_large_enough_is_promoted(
    found: Evidence, smallest: float
) -> None:
    said = verdict(found, 0.05, abs(smallest))
    assert said.reasons
    if said.verdict == PROMOTED:
        assert found.standing == TESTED
        assert found.blocks >= 5
        assert found.p <= 0.05
        assert found.mean >= abs(smallest)
        assert found.mean > 0


STEADY = [0.1, -0.1, 0.2, -0.2, 0.05, -0.05, 0.15, -0.15]


def test_a_guard_passes_when_a_loss_of_its_margin_is_excluded() -> None:
    (passed,) = judge_guard([STEADY], 0.2)
    assert (passed.verdict, passed.tight) == (PASSED, False)
    assert -0.2 < passed.limit < passed.mean == 0
    (failed,) = judge_guard([[x - 0.5 for x in STEADY]], 0.2)
    assert failed.verdict == FAILED
    (tight,) = judge_guard([STEADY], 0.05)
    assert (tight.verdict, tight.tight) == (UNDECIDED, True)


@given(st.lists(numbers, min_size=5, max_size=12), st.floats(0, 2), st.booleans())
def test_a_larger_margin_never_refuses_what_a_smaller_one_let_pass(
    deltas: list[float], margin: float, ordered: bool
) -> None:
    places = [FAILED, UNDECIDED, PASSED]
    less, more = (judge_guard([deltas], m, ordered=ordered)[0].verdict for m in (margin, margin + 0.1))
    assert places.index(less) <= places.index(more)


def test_a_guard_without_noise_goes_by_what_is_there() -> None:
    ideas = [[0.0] * 5, [-0.1] * 5, [-0.3] * 5]
    assert [found.verdict for found in judge_guard(ideas, 0.1)] == [PASSED, PASSED, FAILED]
    assert judge_guard([[0.0] * 5], 0)[0].verdict == PASSED
    assert judge_guard([[-9.0] * 4], 0)[0].verdict == UNDECIDED


def test_a_guard_has_failed_only_where_a_loss_within_its_margin_is_excluded() -> None:
    losses = [-0.9, -1.9, -0.8, -1.7, -1.0, -1.8]  # a mean of -1.35, and -0.93 at best
    assert [judge_guard([losses], margin)[0].verdict for margin in (0.85, 1.3, 1.4, 2.5)] == [
        FAILED, UNDECIDED, UNDECIDED, PASSED,
    ]  # fmt: skip


def test_a_guard_in_time_order_asks_for_more() -> None:
    trend = [x / 10 for x in (0, 1, 2, 3, 2, 1, 0, -1, -2, -3, -2, -1)] * 2
    (apart,), (ordered,), (known,) = (
        judge_guard([trend], 1),
        judge_guard([trend], 1, ordered=True),
        judge_guard([trend], 1, ordered=True, rho=0.5),
    )
    assert apart.se < known.se < ordered.se
    assert ordered.limit < known.limit < apart.limit


def test_blocks_that_lean_to_losses_make_a_guard_stricter() -> None:
    leaning = [0.1, 0.1, 0.12, 0.08, 0.1, 0.09, 0.11, -0.7]
    turned = [-x for x in leaning]
    assert judge_guard([leaning], 1)[0].limit - sum(leaning) / 8 < judge_guard([turned], 1)[0].limit - sum(turned) / 8


@pytest.mark.parametrize(("ideas", "margin"), [([[1.0], [1.0, 2.0]], 0), ([[]], 0), ([[1.0, 2.0]], -1)])
def test_what_cannot_be_guarded_is_refused(ideas: list[list[float]], margin: float) -> None:
    with pytest.raises(ValueError, match="equally many"):
        judge_guard(ideas, margin)


@pytest.mark.parametrize(
    ("freed", "expected"),
    [([], 0.01), ([True], 0.02), ([False, True], 0.02), ([True, True], 0.03), ([True, False], 0.01)],
)
def test_a_depth_hands_on_what_it_did_not_need(freed: list[bool], expected: float) -> None:
    assert depth_alpha(0.05, 5, freed) == pytest.approx(expected)


@given(st.lists(st.booleans(), max_size=9))
def test_the_levels_that_were_kept_never_add_up_to_more_than_alpha(freed: list[bool]) -> None:
    spent = [depth_alpha(0.05, 10, freed[:depth]) for depth in range(len(freed) + 1)]
    kept = [one for one, free in zip(spent, [*freed, False], strict=True) if not free]
    assert sum(kept) == pytest.approx(0.005 * (len(freed) + 1))


def test_there_is_no_alpha_after_the_last_depth() -> None:
    with pytest.raises(ValueError, match="there are 2 depths, and 2 of them are over"):
        depth_alpha(0.05, 2, [True, True])


def test_configs_are_reduced_to_a_number_a_block_and_float_noise_to_nothing() -> None:
    assert reduce_configs([[1.0, 1e16], [3.0, 1.0], [5.0, -1e16]]) == [3.0, 0.333333333333]
    assert differences([0.1 + 0.2, 2.0], [0.3, 1.0]) == [0.0, 1.0]
    assert differences([0.1 + 0.2, 2.0], [0.3, 1.0], sign=-1.0) == [0.0, -1.0]


def test_a_verdict_needs_no_numpy() -> None:
    modules = ("evidence", "noninferiority", "series", "rule")
    look = f"import sys, {', '.join(f'pipeline.trust.{name}' for name in modules)}; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=True, timeout=60)
