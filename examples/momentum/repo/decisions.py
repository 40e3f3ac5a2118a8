"""What the strategy decides with every config, before anything is known of what comes of it.

Usage: python decisions.py [--prices FILE] [--since DATE] [--config-limit N] --out FILE [--errors FILE]

A row for each first trading day of a month and each config: date, config_id, and the weight of every stock, to the last
bit, for `judge.py`. A config that fails leaves its rows out; the table of errors says why. Whoever cuts off the end of
the prices must find the same rows up to there, or they were decided with it.
"""

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from backtest import Array, Decide, Prices, decision_days, read_prices
from strategy import Config, decide
from sweep import grid, one_line, write


def weights(prices: Prices, config: Config, days: list[int], decide: Decide) -> Array:
    """A row a day."""
    wanted = np.array([decide(prices.closes, day, config) for day in days], dtype=float)
    if wanted.shape != (len(days), prices.closes.shape[1]):
        raise ValueError(f"decisions on {len(days)} days of {prices.closes.shape[1]} stocks have shape {wanted.shape}")
    return wanted


def decided(
    prices: Prices, configs: Iterable[Config], decide: Decide, since: str = ""
) -> tuple[list[Sequence[object]], list[Sequence[object]]]:
    """Decisions in the order of time, and the errors of those configs that failed."""
    days = [day for day in decision_days(prices.days) if prices.days[day] >= since]
    rows: list[Sequence[object]] = []
    errors: list[Sequence[object]] = []
    for config in configs:
        try:
            wanted = weights(prices, config, days, decide).tolist()
        except Exception as error:  # noqa: BLE001 whatever a strategy does wrong with this config, the others are tried
            errors.append([config.config_id, one_line(error)])
            continue
        rows += [[prices.days[day], config.config_id, *row] for day, row in zip(days, wanted, strict=True)]
    return sorted(rows, key=lambda row: str(row[0])), errors  # of one day in the order of configs


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    parser.add_argument("--since", default="", help="the first day, such as 2006-01-01; default: all")
    parser.add_argument("--config-limit", type=int, default=len(grid()), metavar="N", help="the first N")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--errors", type=Path)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    prices = read_prices(asked.prices)
    rows, errors = decided(prices, grid()[: asked.config_limit], decide, asked.since)
    write(asked.out, ("date", "config_id", *prices.stocks), rows)
    if asked.errors:
        write(asked.errors, ("config_id", "error"), errors)


if __name__ == "__main__":
    main()
