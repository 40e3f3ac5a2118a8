"""What the strategy decides with every config, before anything is known of what comes of it.

Usage: python decisions.py [--prices FILE] [--since DATE] --out FILE

A row for each trading day and config: date, config_id, and the weight of every stock. A config that fails leaves its
rows out. Whoever cuts off the end of the prices must find the same rows up to there, or they were decided with it.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from pathlib import Path

from backtest import WARM_UP, Prices, month_starts, read_prices
from strategy import Config, decide
from sweep import grid

DIGITS = 9


def weights(prices: Prices, config: Config, days: list[int]) -> list[list[object]]:
    """A row a day, or none at all."""
    try:
        wanted = [decide(prices.closes, day, config) for day in days]
    except Exception:  # noqa: BLE001 the sweep reports what failed
        return []
    rows = zip(days, wanted, strict=True)
    return [[prices.days[day], config.config_id, *(f"{part:.{DIGITS}g}" for part in each)] for day, each in rows]


def decided(prices: Prices, since: str) -> Iterator[list[object]]:
    """In the order of time, and on the last day too: it is known on that day whether a month has begun."""
    days = [day for day in month_starts(prices.days) if day >= WARM_UP and prices.days[day] >= since]
    rows = [row for config in grid() for row in weights(prices, config, days)]
    yield from sorted(rows, key=lambda row: row[:2])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    parser.add_argument("--since", default="", help="the first day, such as 2006-01-01; default: all")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    prices = read_prices(asked.prices)
    stocks = asked.prices.read_text().partition("\n")[0].split(",")[1:]
    with asked.out.open("w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["date", "config_id", *stocks])
        table.writerows(decided(prices, asked.since))


if __name__ == "__main__":
    main()
