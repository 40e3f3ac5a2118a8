"""Laws of the canary: what decides by the past alone passes, what looks ahead does not, wherever data is cut."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.run.canary import UnusableTable, cut_times, first_change, parse_data, parse_decisions, run_canary
from pipeline.tree.run.command import NOTHING_RAN, CheckoutRun
from pipeline.tree.spec.model import Canary

values = st.lists(st.integers(0, 3), min_size=2, max_size=40)
seeds = st.text(max_size=3)
counts = st.integers(1, 6)


def table(prices: list[int]) -> str:
    return "time,price\n" + "".join(f"{n:03},{price}\n" for n, price in enumerate(prices))


def deciding(prices: list[int], ahead: int, every: int) -> Callable[[str], CheckoutRun]:
    """Every so many days: the price of a day, `ahead` days from then as far as there are so many."""

    def run(until: str) -> CheckoutRun:
        last = int(until)
        rows = [f"{n:03},{prices[min(n + ahead, last)]}" for n in range(0, last + 1, every)]
        return NOTHING_RAN._replace(results="\n".join(["time,part", *rows]).encode())

    return run


def canary(count: int) -> Canary:
    return Canary("data", "", count, 1e-9, 0.0)


@given(values, st.integers(1, 5), counts, seeds)
def test_what_decides_by_the_past_passes_wherever_the_data_is_cut(
    prices: list[int], every: int, count: int, seed: str
) -> None:
    found = run_canary(canary(count), parse_data(table(prices), ""), seed, deciding(prices, 0, every))
    assert found.why == "" or not found.cuts
    assert [cut.change for cut in found.cuts] == [""] * len(found.cuts)


@given(values, st.integers(1, 5), st.integers(1, 9), counts, seeds)
def test_a_look_ahead_is_found_at_every_cut_after_which_the_price_is_another(
    prices: list[int], every: int, ahead: int, count: int, seed: str
) -> None:
    data, end = parse_data(table(prices), ""), len(prices) - 1
    found = run_canary(canary(count), data, seed, deciding(prices, ahead, every))
    for cut in found.cuts:
        last = int(cut.time)
        seen = [prices[min(n + ahead, end)] != prices[min(n + ahead, last)] for n in range(0, last + 1, every)]
        assert bool(cut.change) == any(seen)


@given(st.integers(2, 60), st.integers(1, 5), counts, st.floats(0, 0.99), seeds)
def test_cuts_are_times_of_decisions_in_order_after_the_start_and_the_same_again(
    days: int, every: int, count: int, start: float, seed: str
) -> None:
    data = parse_data(table([1] * days), "")
    made = parse_decisions(deciding([1] * days, 0, every)(data.last).results.decode(), data, data.last)
    found = cut_times(made, data, start, count, seed)
    eligible = [f"{n:03}" for n in range(0, days - 1, every) if n + 2 >= start * (days + 1)]
    assert {*found} <= {*eligible}
    assert found == sorted({*found})
    assert len(found) == min(count, len(eligible))
    assert found == cut_times(made, data, start, count, seed)


@given(values, st.integers(0, 39))
def test_data_up_to_a_time_is_its_first_lines_byte_for_byte(prices: list[int], n: int) -> None:
    text, time = table(prices), min(n, len(prices) - 1)
    assert parse_data(text, "").until(f"{time:03}") == "".join(text.splitlines(keepends=True)[: time + 2])


def test_all_rows_of_a_time_stay_together() -> None:
    text = 'stock,day\r\na,1\r\nb,1\r\n"c\r\nd",9\r\na,10\r\n'
    data = parse_data(text, "day")
    assert data.until("1") == "stock,day\r\na,1\r\nb,1\r\n"
    assert data.until("9") == 'stock,day\r\na,1\r\nb,1\r\n"c\r\nd",9\r\n'
    assert data.until("10") == text


DAYS = parse_data("day\n1\n2\n3\n", "")


def decided(text: str) -> str:
    return f"day,config,part\n{text}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("1,0,.5\n", "1,0,.5\n", ""),
        ("1,0,.5\n", "1,0,0.5000000001\n", ""),
        ("1,0,1e9\n", "1,0,1000000000.5\n", ""),
        ("1,0,.5\n", "1,0,.51\n", "1: part .5 -> .51"),
        ("1,0,.5\n1,1,.5\n", "1,0,.5\n1,1,.6\n", "1, config 1: part .5 -> .6"),
        ("1,0,.5\n1,1,.5\n", "1,0,.5\n", "1, config 1: decided -> nothing"),
        ("1,0,.5\n1,1,.5\n", "1,1,.5\n", "1, config 0 -> 1, config 1"),
        ("1,0,.5\n", "", "1: decided -> nothing"),
        ("", "1,0,.5\n", "1: nothing -> decided"),
        ("1,0,long\n", "1,0,short\n", "1: part long -> short"),
        ("1,0,\n", "1,0,0\n", "1: part  -> 0"),
        ("1,0,a\x1b b\n", "1,0,c\n", "1: part a\\x1b b -> c"),
    ],
)
def test_the_first_decision_that_changed_is_named(old: str, new: str, says: str) -> None:
    whole, part = (parse_decisions(decided(text), DAYS, "3") for text in (old, new))
    assert first_change(whole, part, 1e-9) == says


@pytest.mark.parametrize("word", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_what_is_not_finite_is_no_decision(word: str) -> None:
    with pytest.raises(UnusableTable, match="line 3: part is"):
        parse_decisions(decided(f"1,0,1\n2,0,{word}\n"), DAYS, "3")


@given(st.text(max_size=80))
def test_whatever_was_written_is_read_or_refused(text: str) -> None:
    with suppress(UnusableTable):
        found = parse_decisions(text, DAYS, "2")
        assert all(len(row) == len(found.header) for row in found.rows)
        assert {row[0] for row in found.rows} <= {"1", "2"}
