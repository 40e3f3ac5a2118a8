"""What decisions would have earned: bought at the close they were made on, held for a month, trades paid for."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from strategy import Config

Array = Any  # of floats; numpy's own types would need numpy wherever this is checked
Decide = Callable[[Array, int, Config], Array]

COST = 0.001  # of the value traded, bought or sold
ROUNDING = 1e-9  # of all the wealth
WARM_UP = 273  # days before anybody trades, a year and a month: so that all configs trade on the same days
MONTHS = 12  # in a year


@dataclass(frozen=True)
class Prices:
    days: list[str]
    closes: Array  # a row a day, a column a stock
    stocks: Sequence[str] = ()


@dataclass(frozen=True)
class History:
    """A portfolio over time."""

    months: list[str]
    returns: Array  # a month each, costs paid
    wealth: Array  # a day each, starting at 1
    traded: Array  # a month each: value bought and sold, as a part of the wealth
    bounds: list[int]  # days on which the months begin, and the last one ends


def read_prices(path: Path) -> Prices:
    head, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return Prices([row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float), head[1:])


def month_starts(days: Sequence[str]) -> list[int]:
    """The first trading day of each month; that it is the first is known on that day."""
    return [day for day in range(1, len(days)) if days[day][:7] != days[day - 1][:7]]


def decision_days(days: Sequence[str]) -> list[int]:
    """On the last day too: it is known on that day whether a month has begun."""
    return [day for day in month_starts(days) if day >= WARM_UP]


def trading_days(days: Sequence[str]) -> list[int]:
    """On the last day there is, nothing is bought: nobody knows what comes of it."""
    return [day for day in decision_days(days) if day < len(days) - 1]


def decisions(prices: Prices, config: Config, decide: Decide) -> Array:
    """A row of weights for every trading day."""
    return np.array([decide(prices.closes, day, config) for day in trading_days(prices.days)])


def check_rules(wanted: Array, top: int) -> None:
    """Raise ValueError for weights that nobody may hold, whoever wrote them down."""
    if not np.isfinite(wanted).all():
        raise ValueError("a weight is not a finite number")
    if wanted.min() < 0:
        raise ValueError("a stock is sold short")
    if wanted.sum(axis=1).max() > 1 + ROUNDING:
        raise ValueError("more is invested than there is")
    if (held := (wanted > 0).sum(axis=1).max()) > top:
        raise ValueError(f"{held} stocks are held, {top} are most")


def backtest(prices: Prices, wanted: Array) -> History:
    """Between trading days the weights drift with the prices."""
    days = trading_days(prices.days)
    held, now = np.zeros_like(wanted[0]), 1.0
    wealth, returns, traded = [np.ones(1)], [], []
    for start, end, weights in zip(days, [*days[1:], len(prices.days) - 1], wanted, strict=True):
        trade = np.abs(weights - held).sum()
        values = weights * (prices.closes[start + 1 : end + 1] / prices.closes[start])
        growth = (values.sum(axis=1) + 1 - weights.sum()) * (1 - COST * trade)
        wealth.append(now * growth)
        returns.append(growth[-1] - 1)
        traded.append(trade)
        held, now = values[-1] / (values[-1].sum() + 1 - weights.sum()), now * growth[-1]
    months = [prices.days[day][:7] for day in days]
    bounds = [day - days[0] for day in [*days, len(prices.days) - 1]]
    return History(months, np.array(returns), np.concatenate(wealth), np.array(traded), bounds)


def sharpe(returns: Array) -> float:
    """A year's mean over its deviation, from monthly returns."""
    return float(returns.mean() / returns.std(ddof=1) * np.sqrt(MONTHS))


def metrics(history: History) -> dict[str, float]:
    peaks, growth = np.maximum.accumulate(history.wealth), history.wealth[-1] / history.wealth[0]
    return {
        "sharpe": sharpe(history.returns),
        "max_drawdown": float((history.wealth / peaks - 1).min()),
        "turnover": float(history.traded.mean() * MONTHS / 2),
        "annual_return": float(growth ** (MONTHS / len(history.returns)) - 1),
    }


def years(months: Sequence[str]) -> list[str]:
    """Those with two months at least: a single one has no deviation."""
    counts = Counter(month[:4] for month in months)
    return sorted(year for year, count in counts.items() if count > 1)


def part(history: History, year: str) -> History:
    """A year of it, from the wealth that it began with."""
    own = [n for n, month in enumerate(history.months) if month[:4] == year]
    months, bounds = slice(own[0], own[-1] + 1), history.bounds[own[0] : own[-1] + 2]
    wealth = history.wealth[bounds[0] : bounds[-1] + 1]
    return History(history.months[months], history.returns[months], wealth, history.traded[months], bounds)
