"""A config that fails is a row of the table, and the others are tried all the same."""

import unittest

import numpy as np
from backtest import Array
from strategy import Config, decide
from sweep import COLUMNS, cells, grid, outcome

from tests.made_up import prices


def too_few(closes: Array, day: int, config: Config) -> Array:
    if config.top == 3:
        raise ValueError("three are\n too few")
    return decide(closes, day, config)


def nothing(closes: Array, *_: object) -> Array:
    """A portfolio that never moves has no deviation."""
    return np.zeros(closes.shape[1])


class Sweep(unittest.TestCase):
    def test_config_ids_count_from_zero(self) -> None:
        assert [config.config_id for config in grid()] == list(range(24))

    def test_a_failure_is_a_row_with_an_error_and_no_metrics(self) -> None:
        outcomes = [outcome(prices(), config, too_few) for config in grid()[:2]]
        rows = [dict(zip(COLUMNS, cells(each, "2002"), strict=True)) for each in outcomes]
        assert [row["status"] for row in rows] == ["error", "ok"]
        assert [row["error"] for row in rows] == ["ValueError: three are too few", ""]
        assert [row["sharpe"] == "" for row in rows] == [True, False]

    def test_a_metric_that_is_not_a_number_is_a_failure(self) -> None:
        with np.errstate(invalid="ignore"):
            assert "sharpe" in outcome(prices(), grid()[0], nothing).error

    def test_weights_that_break_the_rules_are_a_failure(self) -> None:
        weights = {"finite": np.nan, "short": -0.1, "more is invested": 0.6, "12 stocks are held, 3": 0.01}
        for why, weight in weights.items():
            error = outcome(
                prices(), grid()[0], lambda closes, *_, weight=weight: np.full(closes.shape[1], weight)
            ).error
            assert why in error, error


if __name__ == "__main__":
    unittest.main()
