"""Prices made up for tests: two years of twelve stocks, each with a drift of its own."""

from datetime import date, timedelta

import numpy as np
from backtest import Prices

STOCKS = 12


def prices(length: int = 600) -> Prices:
    rng = np.random.default_rng(7)
    steps = rng.normal(np.linspace(-0.001, 0.001, STOCKS), 0.01, (length, STOCKS))
    days = [(date(2001, 1, 1) + timedelta(days=day)).isoformat() for day in range(length)]
    return Prices(days, 100 * np.cumprod(1 + steps, axis=0))
