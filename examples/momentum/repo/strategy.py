"""Which stocks to hold, and how much of each: decided on the first trading day of a month, at its close.

`closes` has a row a day and a column a stock. It is passed whole, as vectorised research code does: nothing here
keeps a decision from looking past its `day`. `decisions.py` writes down what is decided, so that others can tell.
"""

# ruff: noqa: ARG001 each part of the decision is given what it might go by

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # of floats; numpy's own types would need numpy wherever this is checked


@dataclass(frozen=True)
class Config:
    """A row of the sweep."""

    config_id: int
    lookback: int  # days
    top: int  # stocks held at most
    seed: int


def window(day: int, lookback: int) -> tuple[int, int]:
    """The first and the last day that the signal looks at."""
    last = day
    return last - lookback, last


def strength(closes: Array, first: int, last: int) -> Array:
    """How well each stock did between two days."""
    return closes[last] / closes[first] - 1


def unit(closes: Array, day: int) -> Array:
    """What the strength of each stock is measured in."""
    return np.ones(closes.shape[1])


def signal(closes: Array, day: int, config: Config) -> Array:
    """How much each stock is wanted: what fell most has to come back."""
    first, last = window(day, config.lookback)
    score = strength(closes, first, last) / unit(closes, day)
    return -score


def choose(score: Array, top: int) -> Array:
    """The better half of the stocks that there is place for; ties go to the earlier column."""
    order = np.argsort(-score, kind="stable")
    return order[: (top + 1) // 2]


def conviction(count: int) -> Array:
    """How much the places in the ranking are worth: each two thirds of the one before."""
    return (2 / 3) ** np.arange(count)


def split(closes: Array, day: int, chosen: Array) -> Array:
    """The part of each of the chosen stocks; together they are one."""
    parts = conviction(len(chosen))
    return parts / parts.sum()


def market(closes: Array, day: int) -> float:
    """How much of the wealth is invested, going by the market; the rest is cash and earns nothing."""
    return 1.0


def risk(closes: Array, day: int, chosen: Array) -> float:
    """How much of that stays invested, going by the chosen stocks."""
    return 1.0


def spread(parts: Array, chosen: Array, stocks: int) -> Array:
    """The weight of every stock: what is not chosen has none."""
    weights = np.zeros(stocks)
    weights[chosen] = parts
    return weights


def decide(closes: Array, day: int, config: Config) -> Array:
    """The weight of every stock on this day."""
    chosen = choose(signal(closes, day, config), config.top)
    parts = split(closes, day, chosen)
    invested = market(closes, day) * risk(closes, day, chosen)
    return spread(invested * parts, chosen, closes.shape[1])
