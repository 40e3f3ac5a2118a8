"""Two scenarios goal by goal and seed by seed: which one solves what the other does not, and with how many calls."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any, NamedTuple

from pipeline.mcts.comparison.intervals import DIFFERENCE, mean, over_seeds, ratio_over_seeds
from pipeline.mcts.comparison.searches import Record, pair, solved


class Pair(NamedTuple):
    """What two scenarios made of one goal with one seed."""

    here: Record
    there: Record

    @property
    def solved(self) -> tuple[bool, bool]:
        return solved(self.here), solved(self.there)

    def told(self) -> dict[str, Any]:
        return {"goal": self.here["goal"], "seed": self.here["seed"]}


def against(here: Sequence[Record], there: Sequence[Record]) -> dict[str, Any]:
    """Above 0 and below 1 speak for what is here: more solved, with fewer calls for what both solved."""
    others = {pair(each): each for each in there}
    pairs = [Pair(each, others[pair(each)]) for each in here if pair(each) in others]
    both = [each for each in pairs if all(each.solved)]
    return {
        "pairs": len(pairs),
        "both": len(both),
        "neither": sum(not any(each.solved) for each in pairs),
        "only_here": [each.told() for each in pairs if each.solved == (True, False)],
        "only_there": [each.told() for each in pairs if each.solved == (False, True)],
        "difference": over_seeds({seed: _difference(some) for seed, some in _by_seed(pairs).items()}, DIFFERENCE),
        "calls_ratio": ratio_over_seeds({seed: _ratio(some) for seed, some in _by_seed(both).items()}),
    }


def _by_seed(pairs: Sequence[Pair]) -> dict[int, list[Pair]]:
    seeds = sorted({each.here["seed"] for each in pairs})
    return {seed: [each for each in pairs if each.here["seed"] == seed] for seed in seeds}


def _difference(pairs: Sequence[Pair]) -> float:
    return mean([here - there for here, there in (each.solved for each in pairs)])


def _ratio(pairs: Sequence[Pair]) -> float:
    """The geometric mean over goals."""
    return exp(mean([log(each.here["to_proof"]["calls"] / each.there["to_proof"]["calls"]) for each in pairs]))
