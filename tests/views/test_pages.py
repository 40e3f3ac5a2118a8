"""The scales of charts: that they hold what is drawn, and are marked at round numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.views.pages.drawing import Scale, amount_scale, decades, difference_scale, html_table, html_text


@given(st.floats(0, 1e9))
def test_a_scale_of_amounts_begins_at_none_holds_the_most_and_counts_in_whole_numbers(most: float) -> None:
    scale = amount_scale("calls", most)
    assert scale.low == scale.ticks[0] == 0
    assert most <= scale.high == scale.ticks[-1] <= max(1, 1.5 * most + 1)
    assert 2 <= len(scale.ticks) <= 10
    assert all(tick == int(tick) for tick in scale.ticks)


@given(st.floats(-1, -0.001), st.floats(0.001, 1))
def test_a_scale_of_differences_holds_both_ends_and_marks_none(low: float, high: float) -> None:
    scale = difference_scale("difference", low, high)
    assert scale.low - 1e-9 <= low < high <= scale.high + 1e-9
    assert 0 in scale.ticks
    assert len(scale.ticks) <= 11


@pytest.mark.parametrize(("value", "part"), [(0.1, 0), (1, 0), (10, 0.5), (100, 1)])
def test_on_a_logarithmic_scale_ten_times_as_much_is_as_far_everywhere(value: float, part: float) -> None:
    assert Scale("calls", 1, 100, [1, 10, 100], logarithmic=True).part(value) == pytest.approx(part)


def test_decades_go_from_the_least_to_the_most() -> None:
    assert list(decades(0.01, 20)) == [0.01, 0.1, 1, 10]


def test_ticks_are_written_as_one_would() -> None:
    assert [Scale("", 0, 1, (), percent=True).tick_text(tick) for tick in (-0.5, 0.0, 0.07, 0.125)] == [
        "-50 %", "0 %", "7 %", "12.5 %",
    ]  # fmt: skip
    assert [Scale("", 0, 1, (), unit=" s").tick_text(tick) for tick in (0.01, 500.0, 120_000)] == [
        "0.01 s",
        "500 s",
        "120,000 s",
    ]


def test_only_columns_of_numbers_stand_to_the_right() -> None:
    text = html_table(("goal", "calls"), [("a", "7")], numbers=(1,))
    assert '<th>goal</th><th class="number">calls</th>' in text
    assert '<td>a</td><td class="number">7</td>' in text


def test_text_of_others_is_no_markup_and_all_of_it_can_be_seen() -> None:
    assert html_text('<img src="x">&\u202ea\x1b[31m\nb') == "&lt;img src=&quot;x&quot;&gt;&amp; a [31m\nb"
