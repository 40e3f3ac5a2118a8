"""A candidate beside its parent, config by config: what the means do not show."""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Mapping
from math import fsum
from typing import NamedTuple

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


def by_config(better: str, parent: Mapping[int, float], own: Mapping[int, float]) -> ByConfig:
    """By config, the same ones of both; more is better after SIGN has been applied."""
    sign = SIGN[better]
    old, new = ([sign * side[config] for config in parent] for side in (parent, own))
    signs = [_sign(after, before) for before, after in zip(old, new, strict=True)]
    best, worst = max(old), min(new)
    return ByConfig(signs.count(1), signs.count(-1), signs.count(0), sign * best, sign * worst, _sign(worst, best) > 0)


def column(text: str, name: str, configs: Container[int]) -> dict[int, float]:
    """Of a CSV that is known to be complete, means where a config has many rows; `results` reads any, at ten times the
    cost."""
    lines = csv.reader(f"{line}\n" for line in text.removeprefix("\ufeff").split("\n"))
    rows = (cells for cells in lines if any(map(str.strip, cells)))
    header = [cell.strip() for cell in next(rows)]
    if name not in header:  # a metric of a later day
        return {}
    at, value = header.index("config_id"), header.index(name)
    return means((config, float(cells[value])) for cells in rows if (config := int(cells[at])) in configs)


def means(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for config, value in values:
        found.setdefault(config, []).append(value)
    return {config: fsum(each) / len(each) for config, each in found.items()}


def _sign(after: float, before: float) -> int:
    if abs(after - before) <= NOISE * max(abs(after), abs(before)):
        return 0
    return 1 if after > before else -1
