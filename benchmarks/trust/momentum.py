"""Null ideas on real prices: the strategy of examples/momentum with 10 % noise on its signal, blocks are years.

A block's metric is the Sharpe ratio of its twelve months.  The noise is new for each idea, month and stock, and the
same for all configs.  The backtest is that of the example, for all months at once, and is held against it first.
Prices are what they were: where the strategy itself was unlucky, most ideas look better, and are correlated by it."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.trust.errors import any_of
from benchmarks.trust.judged import mean_above_zero, promoted, t_over_configs, two_errors, weighed
from benchmarks.trust.shares import seeded
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "momentum" / "repo"
NOISE = 0.1  # of the signal's spread over the stocks
IDEAS = 7
MOST = 5.0
YEAR = 12


class Market:
    """What the example's backtest needs of the prices, month by month."""

    def __init__(self, path: str) -> None:
        sys.path.insert(0, str(EXAMPLE))
        import backtest
        import strategy
        import sweep

        self.cost, self.conviction = backtest.COST, strategy.conviction
        prices = backtest.read_prices(Path(path))
        self.days = np.array(backtest.trading_days(prices.days))
        self.closes = prices.closes
        ends = np.append(self.days[1:], len(prices.days) - 1)
        self.growth = self.closes[ends] / self.closes[self.days]
        self.lookbacks, self.tops = sweep.LOOKBACKS, sweep.TOPS
        self.places = {top: len(strategy.choose(self.closes[0], top)) for top in self.tops}
        config = strategy.Config(0, self.lookbacks[0], self.tops[0], 0)
        known = backtest.backtest(prices, backtest.decisions(prices, config, strategy.decide)).returns
        if not np.allclose(known, self.returns(self.signal(self.lookbacks[0]), self.tops[0]), atol=1e-12):
            raise AssertionError("the returns are not those of the example")

    def signal(self, lookback: int) -> Array:
        """[month, stock]"""
        return 1 - self.closes[self.days] / self.closes[self.days - lookback]

    def returns(self, signal: Array, top: int) -> Array:
        chosen = np.argsort(-signal, axis=1, kind="stable")[:, : self.places[top]]
        parts = self.conviction(self.places[top])
        weights = np.zeros_like(signal)
        np.put_along_axis(weights, chosen, parts / parts.sum(), axis=1)
        values = weights * self.growth
        held = np.vstack([np.zeros(signal.shape[1]), (values / values.sum(axis=1, keepdims=True))[:-1]])
        traded = np.abs(weights - held).sum(axis=1)
        return values.sum(axis=1) * (1 - self.cost * traded) - 1

    def sharpes(self, noise: Array) -> Array:
        """[config, year]"""
        signals = map(self.signal, self.lookbacks)
        noisy = [s + noise * s.std(axis=1, keepdims=True) for s in signals]
        returns = np.array([self.returns(s, top) for s in noisy for top in self.tops])
        years = returns[:, : returns.shape[1] // YEAR * YEAR].reshape(len(returns), -1, YEAR)
        return years.mean(axis=2) / years.std(axis=2, ddof=1) * YEAR**0.5


@cache
def _market(path: str) -> Market:
    return Market(path)


def _grid(quick: bool) -> list[Params]:
    return [{"part": part} for part in range(1 if quick else 2)]


def _measure(depths: int, part: int, prices: str) -> Found:
    market, rng = _market(prices), seeded("momentum", part)
    shape = market.growth.shape
    parent = market.sharpes(np.zeros(shape))
    count = max(8, depths // 4)
    ideas = np.array([market.sharpes(NOISE * rng.standard_normal(shape)) for _ in range(count * IDEAS)])
    deltas = (ideas - parent).reshape(count, IDEAS, *parent.shape)
    blocks = deltas.mean(axis=2)
    rules = {"mean > 0": mean_above_zero, "paired t over configs": t_over_configs, "mean > 2 SE": two_errors}
    return {
        "ideas": count * IDEAS,
        "years": blocks.shape[2],
        "coppice": any_of(promoted(weighed(blocks))),
        "coppice, order: time": any_of(promoted(weighed(blocks, ordered=True))),
        **{name: any_of(rule(deltas)) for name, rule in rules.items()},
        "mean > 0, ideas": f"{100 * mean_above_zero(deltas).mean():.1f}",
    }


def _promises(_params: Params, found: Found) -> list[Promise]:
    ways = ("coppice", "coppice, order: time")
    return [Promise(found[way].within(MOST), f"{way}: false promotions at most {MOST} %: {found[way]}") for way in ways]


MOMENTUM = Study("Null ideas on real prices, % of depths with any promotion", _grid, _measure, _promises)
