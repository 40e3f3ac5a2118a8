"""The keys `metrics:` and `score:` of a tree spec."""

from __future__ import annotations

from typing import Any

from pipeline.declared import choice, flag, number
from pipeline.spec import Item
from pipeline.tree.results import NEEDED
from pipeline.tree.scoring import HIGHER, LOWER, Constants, Metric, Rules, mistakes

WEIGHTED_MEANS = "weighted_means"
METHODS = (WEIGHTED_MEANS,)
METRIC_KEYS = ("primary", "better", "weight", "guard")
WHOLE_NUMBERS = ("least_better", "lead")


def rules(metrics: Item, score: Item | None) -> Rules:
    read = {name: value.fields(f"metrics: {name}", METRIC_KEYS) for name, value in _named(metrics)}
    primary = [name for name, keys in read.items() if "primary" in keys and flag(keys["primary"], "primary")]
    if len(primary) != 1:
        metrics.wrong(f"metrics: one of them must have `primary: true`; {len(primary)} of {len(read)} have it")
    found = Rules(primary[0], tuple(_metric(name, keys) for name, keys in read.items()), _constants(score))
    for mistake in mistakes(found):
        (score if score is not None and mistake.startswith("score") else metrics).wrong(mistake)
    return found


def _named(metrics: Item) -> list[tuple[str, Item]]:
    pairs = [*metrics.pairs("metrics")]
    for name, value in pairs:
        if name in NEEDED:
            value.wrong(f"metrics: {name} is a column that every sweep has; name a column with numbers")
    return pairs


def _metric(name: str, keys: dict[str, Item]) -> Metric:
    what = f"metrics: {name}"
    return Metric(
        name,
        choice(keys["better"], f"{what}: better", (HIGHER, LOWER)) if "better" in keys else HIGHER,
        number(keys["weight"], f"{what}: weight", 0) if "weight" in keys else None,
        flag(keys["guard"], f"{what}: guard") if "guard" in keys else False,
    )


def _constants(score: Item | None) -> Constants:
    if score is None:
        return Constants()
    keys = score.fields("score", ("method", *Constants._fields))
    if "method" in keys:
        choice(keys.pop("method"), "score: method", METHODS)
    return Constants(**{name: _constant(name, value) for name, value in keys.items()})


def _constant(name: str, item: Item) -> Any:
    what = f"score: {name}"
    return item.count(what, 0) if name in WHOLE_NUMBERS else number(item, what)
