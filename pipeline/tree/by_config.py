"""A candidate beside its parent, config by config: what the means do not show."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.tree.results import Checked
from pipeline.tree.rounding import NOISE
from pipeline.tree.scoring import SIGN


class ByConfig(NamedTuple):
    """Of the primary metric: how many configs got better, worse, or stayed; and from where to where they reach.

    `beyond`: the worst config is better than the best one of the parent.  Honest ideas hardly ever do that."""

    better: int
    worse: int
    same: int
    parent_best: float
    own_worst: float
    beyond: bool


def by_config(name: str, better: str, parent: Checked, own: Checked) -> ByConfig:
    """Both complete, and not empty; more is better after SIGN has been applied."""
    sign = SIGN[better]
    old, new = ([sign * row.metrics[name] for row in side.rows] for side in (parent, own))
    signs = [_sign(after, before) for before, after in zip(old, new, strict=True)]
    best, worst = max(old), min(new)
    return ByConfig(signs.count(1), signs.count(-1), signs.count(0), sign * best, sign * worst, _sign(worst, best) > 0)


def _sign(after: float, before: float) -> int:
    if abs(after - before) <= NOISE * max(abs(after), abs(before)):
        return 0
    return 1 if after > before else -1
