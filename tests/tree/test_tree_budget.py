"""What a run may spend."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.budget import (
    BUDGET_STOPS,
    STOP_REASONS,
    UNKNOWN_USD,
    BudgetLedger,
    BudgetLimits,
    Ceiling,
    Spending,
    affordable_count,
    budget_left,
    committed_spending,
    reserve_spending,
    settle_spending,
    shortages,
    total_spending,
)

HALF = Ceiling(usd=0.5, tokens=100, seconds=60)


def test_what_is_reserved_is_not_left() -> None:
    ledger = reserve_spending(BudgetLedger(BudgetLimits(3, 2.0, 1000)), ["a"], HALF)
    assert budget_left(ledger) == BudgetLimits(2, 1.5, 900, None)


def test_what_was_not_spent_is_left_again() -> None:
    ledger = settle_spending(
        reserve_spending(BudgetLedger(BudgetLimits(3, 2.0, 1000, 90)), ["a"], HALF), "a", Spending(1, 0.2, 50, 10)
    )
    assert budget_left(ledger) == BudgetLimits(2, 1.8, 950, 80)


def test_an_evaluation_that_cost_more_than_reserved_is_kept_and_the_next_one_is_refused() -> None:
    ledger = settle_spending(reserve_spending(BudgetLedger(BudgetLimits(usd=1.0)), ["a"], HALF), "a", Spending(1, 1.3))
    assert ledger.spent == {"a": Spending(1, 1.3)}
    assert budget_left(ledger).usd == 0
    assert shortages(ledger, HALF) == ("usd",)


def test_one_that_never_started_has_spent_nothing() -> None:
    ledger = BudgetLedger(BudgetLimits(1))
    ended = settle_spending(reserve_spending(ledger, ["a"], HALF), "a", Spending())
    assert budget_left(ended) == budget_left(ledger)
    assert not shortages(ended, HALF)


def test_all_that_does_not_suffice_is_told_in_the_order_of_the_stop_reasons() -> None:
    assert shortages(BudgetLedger(BudgetLimits(0, 0.4, 99, 59)), HALF) == ("evals", "usd", "tokens", "seconds")
    assert shortages(BudgetLedger(BudgetLimits(1, 0.5, 100, 60)), HALF) == ()
    assert tuple(BUDGET_STOPS) == BudgetLimits._fields == Ceiling._fields == Spending._fields[:4]


def test_one_of_unknown_cost_may_start_as_long_as_something_is_left() -> None:
    ledger = BudgetLedger(BudgetLimits(usd=1.0))
    assert not shortages(ledger, Ceiling())
    ledger = settle_spending(reserve_spending(ledger, ["a"], Ceiling()), "a", Spending(1, 1.0))
    assert shortages(ledger, Ceiling()) == ("usd",)


def test_what_is_free_needs_no_money() -> None:
    assert not shortages(BudgetLedger(BudgetLimits(usd=0)), Ceiling(usd=0))
    assert not shortages(BudgetLedger(BudgetLimits(usd=0.5), spent={"z": Spending(1, 0.7)}), Ceiling(usd=0))
    assert shortages(BudgetLedger(BudgetLimits(usd=0)), Ceiling()) == ("usd",)


def test_as_many_start_as_can_be_paid_for_and_it_is_told_what_stops_the_next() -> None:
    ledger = BudgetLedger(BudgetLimits(9, 1.6, 400), spent={"z": Spending(1, 0.1)})
    assert affordable_count(ledger, HALF, 9) == (3, ("usd",))
    assert affordable_count(ledger, HALF, 3) == (3, ())
    assert budget_left(reserve_spending(ledger, ["a", "b", "c"], HALF)) == BudgetLimits(5, 0.0, 100, None)
    with pytest.raises(ValueError, match="d: not enough usd left"):
        reserve_spending(ledger, ["a", "b", "c", "d"], HALF)


def test_cents_add_up_without_float_noise() -> None:
    ledger = BudgetLedger(BudgetLimits(usd=0.3))
    for name in "abc":
        ledger = reserve_spending(ledger, [name], Ceiling(usd=0.1))
    assert budget_left(ledger).usd == 0


def test_what_cannot_be_is_refused() -> None:
    ledger = reserve_spending(BudgetLedger(BudgetLimits(2)), ["a"], HALF)
    with pytest.raises(ValueError, match="a has been reserved already"):
        reserve_spending(ledger, ["a"], HALF)
    with pytest.raises(ValueError, match="b has been reserved already"):
        reserve_spending(BudgetLedger(), ["b", "c", "b"], HALF)
    with pytest.raises(ValueError, match="b has not been reserved"):
        settle_spending(ledger, "b", Spending())
    with pytest.raises(ValueError, match="a: cannot have spent"):
        settle_spending(ledger, "a", Spending(1, -0.1))
    with pytest.raises(ValueError, match="a: cannot have spent"):
        settle_spending(ledger, "a", Spending(1, float("nan")))
    ended = settle_spending(ledger, "a", Spending(1))
    with pytest.raises(ValueError, match="a is settled already"):
        settle_spending(ended, "a", Spending(1))
    with pytest.raises(ValueError, match="a has been reserved already"):
        reserve_spending(ended, ["a"], HALF)
    with pytest.raises(ValueError, match="c: not enough evals left"):
        reserve_spending(reserve_spending(ended, ["b"], HALF), ["c"], HALF)


def test_a_call_of_unknown_price_is_charged_with_the_ceiling() -> None:
    spent = {"a": Spending(1, 0.1, unknown_calls=2)}
    ledger = BudgetLedger(BudgetLimits(usd=1.0), spent=spent, ceiling=HALF)
    assert budget_left(ledger).usd == 0.5
    assert total_spending(spent.values()) == Spending(1, 0.1, unknown_calls=2), "what is known stays apart"
    assert not shortages(ledger, HALF)


def test_without_a_ceiling_nothing_starts_after_a_call_of_unknown_price_and_it_is_said_why() -> None:
    ledger = BudgetLedger(BudgetLimits(usd=1.0), spent={"a": Spending(1, 0.1, unknown_calls=1)})
    assert shortages(ledger, Ceiling()) == (UNKNOWN_USD,)
    assert STOP_REASONS[UNKNOWN_USD] == "budget_usd_unknown"
    assert not shortages(BudgetLedger(spent=ledger.spent), Ceiling()), "where no budget stands, nobody is stopped"


def test_without_a_ceiling_a_call_of_unknown_price_counts_as_the_dearest_of_its_sort_in_any_order() -> None:
    rows = {"a": Spending(1, 0.2), "b": Spending(1, 0.1, unknown_calls=2), "c": Spending(1, 0.3)}
    rows |= {"a.idea": Spending(0, 0.9), "d": Spending(1, 5.0, unknown_calls=1)}
    for order in ([*rows], [*reversed(rows)]):
        ledger = BudgetLedger(BudgetLimits(usd=100.0), spent={name: rows[name] for name in order})
        assert committed_spending(ledger).usd == pytest.approx(0.2 + 0.1 + 2 * 0.3 + 0.3 + 0.9 + 5.0 + 0.3)
        assert not shortages(ledger, Ceiling())
    alone = BudgetLedger(BudgetLimits(usd=100.0), spent={"a": rows["a"], "b.idea": Spending(0, 0.0, unknown_calls=1)})
    assert shortages(alone, Ceiling()) == (UNKNOWN_USD,), "what an evaluation costs says nothing of an idea"


def test_amounts_are_recorded_as_they_always_were_unless_a_price_is_unknown() -> None:
    assert Spending(1, 0.5, 7, 2.0).as_list == [1, 0.5, 7, 2.0]
    assert Spending(1, 0.5, 7, 2.0, 3).as_list == [1, 0.5, 7, 2.0, 3]


class Played(NamedTuple):
    """What was asked of a ledger: a ceiling each, whether it ends at once, how much of the ceiling it spends."""

    ceiling: Ceiling
    ends: bool
    share: float


MONEY = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 1.0])
TOKENS = st.integers(0, 3)
LIMITS = st.builds(
    BudgetLimits, st.none() | st.integers(0, 4), st.none() | MONEY, st.none() | TOKENS, st.none() | MONEY
)
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
def test_a_budget_is_never_overspent_when_ceilings_hold(limits: BudgetLimits, played: list[Played]) -> None:
    ledger = BudgetLedger(limits)
    for n, (ceiling, ends, share) in enumerate(played):
        if shortages(ledger, ceiling):
            continue
        ledger = reserve_spending(ledger, [str(n)], ceiling)
        if ends:
            cost = Spending(
                1, (ceiling.usd or 0) * share, int((ceiling.tokens or 0) * share), (ceiling.seconds or 0) * share
            )
            ledger = settle_spending(ledger, str(n), cost)
        for most, used, rest in zip(limits, committed_spending(ledger)[:4], budget_left(ledger), strict=True):
            assert most is None or (used <= most and rest is not None and rest >= 0)


@given(st.permutations([("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 1e-9), ("e", 0.7)]))
def test_what_is_left_does_not_depend_on_who_ended_first(ends: list[tuple[str, float]]) -> None:
    ledger = BudgetLedger(BudgetLimits(9, 2.0))
    for name in "abcde":
        ledger = reserve_spending(ledger, [name], Ceiling())
    for name, usd in ends:
        ledger = settle_spending(ledger, name, Spending(1, usd, 1, usd))
    assert budget_left(ledger) == BudgetLimits(4, 0.699999999, None, None)
    assert total_spending(ledger.spent.values()) == Spending(5, 1.300000001, 5, 1.300000001)


@given(LIMITS, PLAYED)
def test_reserving_and_settling_change_no_ledger_but_give_a_new_one(limits: BudgetLimits, played: list[Played]) -> None:
    start = BudgetLedger(limits)
    if played and not shortages(start, played[0].ceiling):
        reserved = reserve_spending(start, ["a"], played[0].ceiling)
        settle_spending(reserved, "a", Spending(1))
        assert (start.reserved, [*reserved.reserved], reserved.spent) == ({}, ["a"], {})
