"""One momentum portfolio: each month hold the stocks that rose most, pay for the trades, and say how it did.

Usage: python3 backtest.py --lookback 126 --top 5 --seed 1 prices.csv result.json

The same bytes come out on every machine and Python: sums are exact (`math.fsum`; the built-in `sum` changed in
3.12), ties go to the earlier column, the random numbers are seeded, results are rounded to DIGITS.
"""

import argparse
import csv
import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

COST = 0.001  # of the value traded, bought or sold
DAYS = 252  # trading days in a year
FIRST = 252  # the first day anybody trades: the longest lookback, so that all are judged on the same days
BLOCK = 12  # months drawn together, so that crashes and calm stretches stay whole
DRAWS = 2000
DIGITS = 6


@dataclass(frozen=True)
class Prices:
    days: list[str]
    closes: list[list[float]]  # a row a day, a column a stock


@dataclass(frozen=True)
class Portfolio:
    lookback: int
    top: int


def read_prices(path: Path) -> Prices:
    with path.open(newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return Prices([row[0] for row in rows], [[float(cell) for cell in row[1:]] for row in rows])


def month_of(day: str) -> str:
    return day[:7]


def month_ends(days: Sequence[str]) -> set[int]:
    return {i for i, (day, after) in enumerate(pairwise(days)) if month_of(day) != month_of(after)}


def target_weights(prices: Prices, day: int, portfolio: Portfolio) -> list[float]:
    """Equal parts of the stocks that rose most; sorting is stable, so ties go to the earlier column."""
    now, then = prices.closes[day], prices.closes[day - portfolio.lookback]
    growth = [a / b for a, b in zip(now, then, strict=True)]
    best = set(sorted(range(len(now)), key=lambda stock: -growth[stock])[: portfolio.top])
    return [1 / len(best) if stock in best else 0.0 for stock in range(len(now))]


def daily_returns(prices: Prices, portfolio: Portfolio) -> list[float]:
    """Bought at the close that gave the signal, paid for the day after; in between the weights drift."""
    rebalances = month_ends(prices.days)
    weights, cost = target_weights(prices, FIRST, portfolio), COST
    returns = []
    for day in range(FIRST + 1, len(prices.days)):
        today, before = prices.closes[day], prices.closes[day - 1]
        values = [w * a / b for w, a, b in zip(weights, today, before, strict=True)]
        total = math.fsum(values)
        returns.append(total - 1 - cost)
        weights, cost = [value / total for value in values], 0.0
        if day in rebalances:
            wanted = target_weights(prices, day, portfolio)
            cost = COST * math.fsum(abs(w - v) for w, v in zip(wanted, weights, strict=True))
            weights = wanted
    return returns


def sharpe(count: float, total: float, squares: float) -> float:
    """A year's mean over its deviation, cash earning nothing; from moments, because those of blocks add up."""
    mean = total / count
    return mean / math.sqrt((squares - count * mean * mean) / (count - 1)) * math.sqrt(DAYS)


def moments(returns: Sequence[float]) -> tuple[float, float, float]:
    return len(returns), math.fsum(returns), math.fsum(r * r for r in returns)


def max_drawdown(returns: Iterable[float]) -> float:
    wealth = list(accumulate((1 + r for r in returns), lambda a, b: a * b, initial=1.0))
    return min(now / peak - 1 for now, peak in zip(wealth, accumulate(wealth, max), strict=True))


def yearly_growth(returns: Sequence[float]) -> float:
    return math.prod(1 + r for r in returns) ** (DAYS / len(returns)) - 1


def monthly_blocks(days: Sequence[str], returns: Sequence[float]) -> list[tuple[float, float, float]]:
    """The moments of every stretch of BLOCK months, the last ones running on into the first."""
    months: dict[str, list[float]] = {}
    for day, r in zip(days, returns, strict=True):
        months.setdefault(month_of(day), []).append(r)
    parts = list(months.values())
    starts = range(len(parts))
    return [moments([r for m in range(s, s + BLOCK) for r in parts[m % len(parts)]]) for s in starts]


def gain_interval(
    days: Sequence[str], mine: Sequence[float], other: Sequence[float], rng: random.Random
) -> tuple[float, float]:
    """The middle 95 % of Sharpe differences over histories redrawn in blocks, the same blocks for both."""
    both = [monthly_blocks(days, mine), monthly_blocks(days, other)]
    blocks = len(both[0])
    gains = []
    for _ in range(DRAWS):
        picks = [int(rng.random() * blocks) for _ in range(blocks // BLOCK)]
        redrawn = [[math.fsum(part) for part in zip(*(b[p] for p in picks), strict=True)] for b in both]
        gains.append(sharpe(*redrawn[0]) - sharpe(*redrawn[1]))
    gains.sort()
    tail = DRAWS // 40
    return gains[tail], gains[-1 - tail]


def result(prices: Prices, portfolio: Portfolio, seed: int) -> dict[str, float]:
    everything = Portfolio(portfolio.lookback, len(prices.closes[0]))
    mine, all_held = daily_returns(prices, portfolio), daily_returns(prices, everything)
    low, high = gain_interval(prices.days[FIRST + 1 :], mine, all_held, random.Random(seed))
    return {
        "lookback": portfolio.lookback,
        "top": portfolio.top,
        "sharpe": round(sharpe(*moments(mine)), DIGITS),
        "cagr": round(yearly_growth(mine), DIGITS),
        "max_drawdown": round(max_drawdown(mine), DIGITS),
        "gain": round(sharpe(*moments(mine)) - sharpe(*moments(all_held)), DIGITS),
        "gain_low": round(low, DIGITS),
        "gain_high": round(high, DIGITS),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lookback", type=int, required=True, help=f"days the rise is measured over, 1 to {FIRST}")
    parser.add_argument("--top", type=int, required=True, help="how many stocks to hold")
    parser.add_argument("--seed", type=int, required=True, help="of the redrawn histories")
    parser.add_argument("prices", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if not 1 <= given.lookback <= FIRST:
        parser.error(f"--lookback {given.lookback}: give 1 to {FIRST}")
    return given


def main() -> None:
    given = arguments()
    prices = read_prices(given.prices)
    if not 1 <= given.top <= len(prices.closes[0]):
        raise SystemExit(f"--top {given.top}: {given.prices} has {len(prices.closes[0])} stocks")
    found = result(prices, Portfolio(given.lookback, given.top), given.seed)
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
