"""What every strategy must keep to, whatever it believes in."""

import unittest

import numpy as np
from backtest import decisions
from strategy import Config, decide

from tests.made_up import prices


class Decisions(unittest.TestCase):
    def setUp(self) -> None:
        self.prices = prices()
        self.wanted = {top: decisions(self.prices, Config(0, 21, top, 1), decide) for top in (5, 8)}

    def test_nothing_is_sold_short(self) -> None:
        for wanted in self.wanted.values():
            assert wanted.min() >= 0

    def test_nothing_is_borrowed(self) -> None:
        for wanted in self.wanted.values():
            assert wanted.sum(axis=1).max() <= 1 + 1e-9

    def test_no_more_stocks_are_held_than_asked_for(self) -> None:
        for top, wanted in self.wanted.items():
            assert (wanted > 0).sum(axis=1).max() <= top

    def test_the_same_prices_lead_to_the_same_decisions(self) -> None:
        again = decisions(self.prices, Config(0, 21, 5, 1), decide)
        np.testing.assert_array_equal(again, self.wanted[5])

    def test_prices_are_not_changed(self) -> None:
        np.testing.assert_array_equal(self.prices.closes, prices().closes)


if __name__ == "__main__":
    unittest.main()
