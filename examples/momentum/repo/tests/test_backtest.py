"""The arithmetic of a portfolio, on prices where the answer is known."""

import unittest

import numpy as np
from backtest import COST, WARM_UP, Array, Prices, backtest, metrics, month_starts, part, trading_days, years

from tests.made_up import prices


def flat(length: int = 400) -> Prices:
    made_up = prices(length)
    return Prices(made_up.days, np.full_like(made_up.closes, 50))


def all_in(prices: Prices, stock: int) -> Array:
    wanted = np.zeros((len(trading_days(prices.days)), prices.closes.shape[1]))
    wanted[:, stock] = 1
    return wanted


class Backtest(unittest.TestCase):
    def test_a_stock_held_for_good_earns_what_it_earns_less_the_cost_of_buying_it(self) -> None:
        market = prices()
        start = trading_days(market.days)[0]
        expected = market.closes[-1, 2] / market.closes[start, 2] * (1 - COST)
        np.testing.assert_allclose(backtest(market, all_in(market, 2)).wealth[-1], expected)

    def test_cash_stays_what_it_is(self) -> None:
        market = prices()
        history = backtest(market, np.zeros_like(all_in(market, 0)))
        np.testing.assert_array_equal(history.wealth, 1)

    def test_changing_from_one_stock_to_another_costs_twice(self) -> None:
        market = flat()
        wanted = all_in(market, 0)
        wanted[1::2] = np.roll(wanted[1::2], 1, axis=1)
        traded = backtest(market, wanted).traded
        np.testing.assert_allclose(traded, [1] + [2] * (len(traded) - 1))

    def test_returns_and_wealth_agree(self) -> None:
        market = prices()
        history = backtest(market, all_in(market, 4) / 2)
        np.testing.assert_allclose(np.prod(1 + history.returns), history.wealth[-1])

    def test_a_loss_of_half_is_a_drawdown_of_half(self) -> None:
        market = flat()
        market.closes[-20:, 0] = 25
        np.testing.assert_allclose(metrics(backtest(market, all_in(market, 0)))["max_drawdown"], -0.5, atol=0.005)

    def test_years_follow_each_other_without_a_gap(self) -> None:
        market = prices()
        history = backtest(market, all_in(market, 4))
        found = [part(history, year) for year in years(history.months)]
        assert [len(each.returns) for each in found] == [3, 8]
        np.testing.assert_array_equal(np.concatenate([each.returns for each in found]), history.returns)
        growth = np.prod([each.wealth[-1] / each.wealth[0] for each in found])
        np.testing.assert_allclose(growth, history.wealth[-1])

    def test_a_year_starts_without_the_losses_of_the_one_before(self) -> None:
        market = flat(600)
        market.closes[330:, 0] = 25
        before, after = (part(backtest(market, all_in(market, 0)), year) for year in ("2001", "2002"))
        np.testing.assert_allclose(metrics(before)["max_drawdown"], -0.5, atol=0.005)
        assert metrics(after)["max_drawdown"] > -0.005

    def test_trading_days_are_firsts_of_months_after_the_warm_up(self) -> None:
        days = prices().days
        assert all(days[day].endswith("-01") for day in month_starts(days))
        assert trading_days(days)[0] >= WARM_UP


if __name__ == "__main__":
    unittest.main()
