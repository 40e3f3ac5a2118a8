"""What decisions would have earned that were written down: the tables of `sweep.py`, without any strategy's code.

Usage: python judge.py [--prices FILE] [--config-limit N] --decisions FILE --errors FILE

Both files are as `decisions.py` writes them.  They may say anything: what is not such a table ends this with an error.
A config that broke the rules, or has no decisions, is a row that says so.
"""

import argparse
import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from backtest import Array, Prices, decision_days, read_prices, trading_days
from strategy import Config
from sweep import LONGEST_ERROR, Outcome, failed, grid, judged, write_tables


def table(path: Path, header: Sequence[str]) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(lines)
        if next(rows, None) != [*header]:
            raise ValueError(f"{path.name}: its first line is not {','.join(header)}")
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"{path.name}:{rows.line_num}: {len(row)} cells, not {len(header)}")
            yield row


def read_decisions(path: Path, prices: Prices, configs: Sequence[Config]) -> dict[str, Array]:
    """By config the weights of every decision day, NaN on those of which it says nothing."""
    place = {prices.days[day]: row for row, day in enumerate(decision_days(prices.days))}
    found: dict[str, Array] = {}
    known = {str(config.config_id) for config in configs}
    for date, name, *weights in table(path, ("date", "config_id", *prices.stocks)):
        if date not in place or name not in known:
            raise ValueError(f"{path.name}: nobody asked for a decision of config {name!r:.40} on {date!r:.40}")
        if name not in found:
            found[name] = np.full((len(place), len(prices.stocks)), np.nan)
        found[name][place[date]] = [float(weight) for weight in weights]
    return found


def read_errors(path: Path) -> dict[str, str]:
    return {name: " ".join(error.split())[:LONGEST_ERROR] for name, error in table(path, ("config_id", "error"))}


def outcome(prices: Prices, config: Config, decided: Mapping[str, Array], errors: Mapping[str, str]) -> Outcome:
    """An error counts, whatever was decided beside it."""
    name = str(config.config_id)
    if name in errors or name not in decided:
        return failed(config, errors.get(name) or "ValueError: it decided nothing")
    return judged(prices, config, decided[name][: len(trading_days(prices.days))])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    parser.add_argument("--config-limit", type=int, default=len(grid()), metavar="N", help="the first N")
    parser.add_argument("--decisions", type=Path, required=True)
    parser.add_argument("--errors", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    prices, configs = read_prices(asked.prices), grid()[: asked.config_limit]
    wanted, errors = read_decisions(asked.decisions, prices, configs), read_errors(asked.errors)
    write_tables(prices, [outcome(prices, config, wanted, errors) for config in configs])


if __name__ == "__main__":
    main()
