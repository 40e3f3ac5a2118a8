"""Does a decision depend on the number of a config? Then single configs can be lucky where all should be better.

Usage: python labels.py [--prices FILE]      exits with 1 if so
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from backtest import Array, Prices, read_prices, trading_days
from strategy import Config, decide
from sweep import grid

EVERY = 24  # months from one decision that is looked at to the next
TOLERANCE = 1e-9  # of a weight


def weights(prices: Prices, day: int, config: Config) -> Array:
    """A config that fails decides nothing, whatever its number."""
    try:
        return decide(prices.closes, day, config)
    except Exception:  # noqa: BLE001 the sweep reports what failed
        return np.full(prices.closes.shape[1], np.nan)


def depends(prices: Prices, day: int, config: Config, other: int) -> bool:
    own, renamed = (weights(prices, day, each) for each in (config, replace(config, config_id=other)))
    return not np.allclose(own, renamed, rtol=0, atol=TOLERANCE, equal_nan=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    prices = read_prices(parser.parse_args().prices)
    configs, days = grid(), trading_days(prices.days)[::EVERY]
    found = [
        (config, prices.days[day])
        for config in configs
        for day in days
        if depends(prices, day, config, len(configs) + config.config_id)
    ]
    print(f"{len(found)} of {len(configs) * len(days)} decisions change with the number of their config")
    if found:
        sys.exit(f"config {found[0][0].config_id} decides otherwise on {found[0][1]} when it has another number")


if __name__ == "__main__":
    main()
