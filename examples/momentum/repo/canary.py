"""Does a decision change when its day is the last there is? Then it was made with prices of days to come.

Usage: python canary.py [--prices FILE]      exits with 1 if so
"""

import argparse
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
from backtest import Array, Decide, Prices, read_prices, trading_days
from sweep import grid

EVERY = 12  # months from one cut to the next
TOLERANCE = 1e-9  # of a weight


def fresh_decide() -> Decide:
    """The strategy loaded anew: one that remembers what it saw would otherwise remember it across the cut."""
    spec = spec_from_file_location("strategy_anew", Path(__file__).with_name("strategy.py"))
    if spec is None or spec.loader is None:
        sys.exit("canary.py: there is no strategy.py beside it")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    decide: Decide = module.decide
    return decide


def weights(closes: Array, day: int) -> Array:
    """A row for every config; one that fails decides nothing, with or without the days to come."""
    decide, rows = fresh_decide(), []
    for config in grid():
        try:
            rows.append(decide(closes, day, config))
        except Exception:  # noqa: BLE001 the sweep reports what failed
            rows.append(np.full(closes.shape[1], np.nan))
    return np.array(rows)


def looks_ahead(prices: Prices, day: int) -> bool:
    seen = prices.closes[: day + 1].copy()  # a view would lead back to the rest
    return not np.allclose(weights(prices.closes, day), weights(seen, day), rtol=0, atol=TOLERANCE, equal_nan=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = os.environ.get("MOMENTUM_PRICES", "prices.csv")
    parser.add_argument("--prices", type=Path, default=default, help="default: $MOMENTUM_PRICES, or prices.csv")
    prices = read_prices(parser.parse_args().prices)
    cuts = trading_days(prices.days)[::EVERY]
    changed = [prices.days[day] for day in cuts if looks_ahead(prices, day)]
    print(f"{len(changed)} of {len(cuts)} decisions change when the days after them are cut off")
    if changed:
        sys.exit(f"look-ahead, first on {changed[0]}")


if __name__ == "__main__":
    main()
