"""Backtest the strategy with every config: a row of metrics for each of its years, and the monthly returns.

Usage: python sweep.py [--prices FILE] [--config-limit N | --config-id I]

It decides and judges in one process, so a strategy could change how it is judged: among those that nobody has read,
`decisions.py` lets one decide, and `judge.py` judges what it decided, to the same bytes.

AGENTIC_OUTPUT_DIR   where returns.csv goes (default: results)
AGENTIC_RESULTS_CSV  the table of metrics (default: results.csv in that folder)
"""

import argparse
import csv
import json
import math
import os
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from backtest import (
    Array,
    Decide,
    History,
    Prices,
    backtest,
    check_rules,
    decisions,
    metrics,
    part,
    read_prices,
    trading_days,
    years,
)
from strategy import Config, decide

LOOKBACKS = (21, 42, 63, 126, 189, 252)  # days
TOPS = (3, 5, 8, 10)  # stocks held
SEED = 1
LONGEST_ERROR = 200
METRICS = ("sharpe", "max_drawdown", "turnover", "annual_return")
COLUMNS = ("config_id", "block", "params", "seed", "status", "error", *METRICS)
DIGITS = 6  # sums may differ in their last bits from one processor to another; these do not


class Outcome(NamedTuple):
    """A config that failed has an error and neither history nor years."""

    config: Config
    history: History | None
    years: dict[str, dict[str, float]]  # metrics
    error: str


def grid() -> list[Config]:
    return [Config(i, lookback, top, SEED) for i, (lookback, top) in enumerate(product(LOOKBACKS, TOPS))]


def by_year(history: History) -> dict[str, dict[str, float]]:
    found = {year: metrics(part(history, year)) for year in years(history.months)}
    wrong = sorted({name for each in found.values() for name, value in each.items() if not math.isfinite(value)})
    if wrong:
        raise ValueError(f"not a finite number: {', '.join(wrong)}")
    return found


def one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_ERROR]


def failed(config: Config, error: str) -> Outcome:
    return Outcome(config, None, {}, error)


def outcome(prices: Prices, config: Config, decide: Decide) -> Outcome:
    try:
        wanted = decisions(prices, config, decide)
    except Exception as error:  # noqa: BLE001 whatever a strategy does wrong with this config, the others are tried
        return failed(config, one_line(error))
    return judged(prices, config, wanted)


def judged(prices: Prices, config: Config, wanted: Array) -> Outcome:
    """What weights are worth that are there, a row for every trading day."""
    try:
        check_rules(wanted, config.top)
        history = backtest(prices, wanted)
        return Outcome(config, history, by_year(history), "")
    except ValueError as error:
        return failed(config, one_line(error))


def blocks(prices: Prices) -> list[str]:
    """The years of every config, also of one that failed."""
    return years([prices.days[day] for day in trading_days(prices.days)])


def cells(outcome: Outcome, year: str) -> list[object]:
    config = outcome.config
    params = json.dumps({"lookback": config.lookback, "top": config.top})
    status = "ok" if outcome.history else "error"
    found = outcome.years.get(year, {})
    numbers = [f"{found[name]:.{DIGITS}f}" if found else "" for name in METRICS]
    return [config.config_id, year, params, config.seed, status, outcome.error, *numbers]


def write(path: Path, header: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)


def monthly(outcomes: Iterable[Outcome]) -> list[list[object]]:
    return [
        [outcome.config.config_id, month, f"{value:.{DIGITS}f}"]
        for outcome in outcomes
        if outcome.history
        for month, value in zip(outcome.history.months, outcome.history.returns, strict=True)
    ]


def write_tables(prices: Prices, outcomes: Sequence[Outcome]) -> None:
    folder = Path(os.environ.get("AGENTIC_OUTPUT_DIR", "results"))
    table = Path(os.environ.get("AGENTIC_RESULTS_CSV", folder / "results.csv"))
    write(table, COLUMNS, [cells(outcome, year) for outcome in outcomes for year in blocks(prices)])
    write(folder / "returns.csv", ("config_id", "month", "return"), monthly(outcomes))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    part = parser.add_mutually_exclusive_group()
    ids = range(len(grid()))
    part.add_argument("--config-limit", type=int, choices=range(1, len(grid()) + 1), metavar="N", help="the first N")
    part.add_argument("--config-id", type=int, choices=ids, metavar="I", help="only this one")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    configs = grid()[: asked.config_limit] if asked.config_id is None else [grid()[asked.config_id]]
    prices = read_prices(asked.prices)
    write_tables(prices, [outcome(prices, config, decide) for config in configs])


if __name__ == "__main__":
    main()
