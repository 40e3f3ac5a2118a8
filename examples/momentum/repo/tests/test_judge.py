"""What was written down is judged as if it had been decided at once, and what is no such table is refused."""

import csv
import unittest
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from backtest import Array
from decisions import decided
from judge import outcome, read_decisions, read_errors
from strategy import Config
from sweep import cells, grid, write
from sweep import outcome as outcome_at_once

from tests.made_up import prices

PRICES = replace(prices(), stocks=[f"S{n}" for n in range(prices().closes.shape[1])])
HEADER = ("date", "config_id", *PRICES.stocks)
DAY = "2001-10-01"


def rising(closes: Array, day: int, config: Config) -> Array:
    """Weights with many digits, of as many stocks as there is place for."""
    parts = closes[day] / closes[day - config.lookback]
    parts[np.argsort(parts)[: -config.top]] = 0
    return parts / parts.sum()


class Judge(unittest.TestCase):
    def setUp(self) -> None:
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "decisions.csv"

    def test_what_was_written_down_is_worth_what_it_was_worth_at_once(self) -> None:
        configs = grid()[:2]
        write(self.file, HEADER, decided(PRICES, configs, rising)[0])
        wanted = read_decisions(self.file, PRICES, configs)
        for config in configs:
            found, known = outcome(PRICES, config, wanted, {}), outcome_at_once(PRICES, config, rising)
            assert found.error == known.error == ""
            assert cells(found, "2002") == cells(known, "2002")
            np.testing.assert_array_equal(found.history.returns, known.history.returns)  # type: ignore[union-attr]

    def test_a_table_that_is_none_ends_it(self) -> None:
        row = [DAY, 0, *[0] * len(PRICES.stocks)]
        tables = (
            [("date", "config_id")],
            [HEADER, row[:-1]],
            [HEADER, [DAY, 1, *row[2:]]],
            [HEADER, ["2001-10-02", *row[1:]]],
            [HEADER, [*row[:-1], "much"]],
        )
        for lines in tables:
            with self.file.open("w", newline="") as out:
                csv.writer(out).writerows(lines)
            with self.assertRaises(ValueError):  # noqa: PT027 only numpy is there
                read_decisions(self.file, PRICES, grid()[:1])

    def test_a_config_that_lacks_a_decision_fails(self) -> None:
        write(self.file, HEADER, decided(PRICES, grid()[:1], rising)[0][1:])
        wanted = read_decisions(self.file, PRICES, grid()[:2])
        assert [outcome(PRICES, config, wanted, {}).error for config in grid()[:2]] == [
            "ValueError: a weight is not a finite number",
            "ValueError: it decided nothing",
        ]

    def test_an_error_that_was_written_down_is_the_error(self) -> None:
        write(self.file, ("config_id", "error"), [[0, "ValueError: three are\n too few"]])
        errors = read_errors(self.file)
        wanted = {"0": np.zeros((1, 1))}
        assert outcome(PRICES, grid()[0], wanted, errors).error == "ValueError: three are too few"


if __name__ == "__main__":
    unittest.main()
