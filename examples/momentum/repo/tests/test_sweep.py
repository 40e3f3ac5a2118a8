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


def undefined(closes: Array, *_: object) -> Array:
    return np.full(closes.shape[1], np.nan)


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
        assert "sharpe" in outcome(prices(), grid()[0], undefined).error


if __name__ == "__main__":
    unittest.main()
