"""What a run may spend."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.budget import (
    REACHED,
    Ceiling,
    Ledger,
    Limits,
    Spent,
    affordable,
    committed,
    left,
    reserve,
    settle,
    short,
    total,
)

HALF = Ceiling(usd=0.5, tokens=100, seconds=60)


def test_what_is_reserved_is_not_left() -> None:
    ledger = reserve(Ledger(Limits(3, 2.0, 1000)), ["a"], HALF)
    assert left(ledger) == Limits(2, 1.5, 900, None)


def test_what_was_not_spent_is_left_again() -> None:
    ledger = settle(reserve(Ledger(Limits(3, 2.0, 1000, 90)), ["a"], HALF), "a", Spent(1, 0.2, 50, 10))
    assert left(ledger) == Limits(2, 1.8, 950, 80)


def test_an_evaluation_that_cost_more_than_reserved_is_kept_and_the_next_one_is_refused() -> None:
    ledger = settle(reserve(Ledger(Limits(usd=1.0)), ["a"], HALF), "a", Spent(1, 1.3))
    assert ledger.spent == {"a": Spent(1, 1.3)}
    assert left(ledger).usd == 0
    assert short(ledger, HALF) == ("usd",)


def test_one_that_never_started_has_spent_nothing() -> None:
    ledger = Ledger(Limits(1))
    ended = settle(reserve(ledger, ["a"], HALF), "a", Spent())
    assert left(ended) == left(ledger)
    assert not short(ended, HALF)


def test_all_that_does_not_suffice_is_told_in_the_order_of_the_stop_reasons() -> None:
    assert short(Ledger(Limits(0, 0.4, 99, 59)), HALF) == ("evals", "usd", "tokens", "seconds")
    assert short(Ledger(Limits(1, 0.5, 100, 60)), HALF) == ()
    assert tuple(REACHED) == Limits._fields == Ceiling._fields == Spent._fields


def test_one_of_unknown_cost_may_start_as_long_as_something_is_left() -> None:
    ledger = Ledger(Limits(usd=1.0))
    assert not short(ledger, Ceiling())
    ledger = settle(reserve(ledger, ["a"], Ceiling()), "a", Spent(1, 1.0))
    assert short(ledger, Ceiling()) == ("usd",)


def test_what_is_free_needs_no_money() -> None:
    assert not short(Ledger(Limits(usd=0)), Ceiling(usd=0))
    assert not short(Ledger(Limits(usd=0.5), spent={"z": Spent(1, 0.7)}), Ceiling(usd=0))
    assert short(Ledger(Limits(usd=0)), Ceiling()) == ("usd",)


def test_as_many_start_as_can_be_paid_for_and_it_is_told_what_stops_the_next() -> None:
    ledger = Ledger(Limits(9, 1.6, 400), spent={"z": Spent(1, 0.1)})
    assert affordable(ledger, HALF, 9) == (3, ("usd",))
    assert affordable(ledger, HALF, 3) == (3, ())
    assert left(reserve(ledger, ["a", "b", "c"], HALF)) == Limits(5, 0.0, 100, None)
    with pytest.raises(ValueError, match="d: not enough usd left"):
        reserve(ledger, ["a", "b", "c", "d"], HALF)


def test_cents_add_up_without_float_noise() -> None:
    ledger = Ledger(Limits(usd=0.3))
    for name in "abc":
        ledger = reserve(ledger, [name], Ceiling(usd=0.1))
    assert left(ledger).usd == 0


def test_what_cannot_be_is_refused() -> None:
    ledger = reserve(Ledger(Limits(2)), ["a"], HALF)
    with pytest.raises(ValueError, match="a has been reserved already"):
        reserve(ledger, ["a"], HALF)
    with pytest.raises(ValueError, match="b has been reserved already"):
        reserve(Ledger(), ["b", "c", "b"], HALF)
    with pytest.raises(ValueError, match="b has not been reserved"):
        settle(ledger, "b", Spent())
    with pytest.raises(ValueError, match="a: cannot have spent"):
        settle(ledger, "a", Spent(1, -0.1))
    with pytest.raises(ValueError, match="a: cannot have spent"):
        settle(ledger, "a", Spent(1, float("nan")))
    ended = settle(ledger, "a", Spent(1))
    with pytest.raises(ValueError, match="a is settled already"):
        settle(ended, "a", Spent(1))
    with pytest.raises(ValueError, match="a has been reserved already"):
        reserve(ended, ["a"], HALF)
    with pytest.raises(ValueError, match="c: not enough evals left"):
        reserve(reserve(ended, ["b"], HALF), ["c"], HALF)


class Played(NamedTuple):
    """What was asked of a ledger: a ceiling each, whether it ends at once, how much of the ceiling it spends."""

    ceiling: Ceiling
    ends: bool
    share: float


MONEY = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.0])
TOKENS = st.integers(0, 3)
LIMITS = st.builds(Limits, st.none() | st.integers(0, 4), st.none() | MONEY, st.none() | TOKENS, st.none() | MONEY)
PLAYED = st.lists(
    st.builds(
        Played,
        st.builds(Ceiling, st.just(1), MONEY, TOKENS, MONEY),
        st.booleans(),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=8,
)


@given(LIMITS, PLAYED)
def test_a_budget_is_never_overspent_when_ceilings_hold(limits: Limits, played: list[Played]) -> None:
    ledger = Ledger(limits)
    for n, (ceiling, ends, share) in enumerate(played):
        if short(ledger, ceiling):
            continue
        ledger = reserve(ledger, [str(n)], ceiling)
        if ends:
            cost = Spent(
                1, (ceiling.usd or 0) * share, int((ceiling.tokens or 0) * share), (ceiling.seconds or 0) * share
            )
            ledger = settle(ledger, str(n), cost)
        for most, used, rest in zip(limits, committed(ledger), left(ledger), strict=True):
            assert most is None or (used <= most and rest is not None and rest >= 0)


@given(st.permutations([("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 1e-9), ("e", 0.7)]))
def test_what_is_left_does_not_depend_on_who_ended_first(ends: list[tuple[str, float]]) -> None:
    ledger = Ledger(Limits(9, 2.0))
    for name in "abcde":
        ledger = reserve(ledger, [name], Ceiling())
    for name, usd in ends:
        ledger = settle(ledger, name, Spent(1, usd, 1, usd))
    assert left(ledger) == Limits(4, 0.699999999, None, None)
    assert total(ledger.spent.values()) == Spent(5, 1.300000001, 5, 1.300000001)


@given(LIMITS, PLAYED)
def test_reserving_and_settling_change_no_ledger_but_give_a_new_one(limits: Limits, played: list[Played]) -> None:
    start = Ledger(limits)
    if played and not short(start, played[0].ceiling):
        reserved = reserve(start, ["a"], played[0].ceiling)
        settle(reserved, "a", Spent(1))
        assert (start.reserved, [*reserved.reserved], reserved.spent) == ({}, ["a"], {})
