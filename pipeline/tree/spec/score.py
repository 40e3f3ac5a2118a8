"""The keys `metrics:` and `score:`: what counts, and by which method it is judged.

Where the sweep says what repeats a measurement, by `blocks:`, the method is `paired`, unless the spec says otherwise;
without blocks there is nothing to tell luck from progress by, and it is `weighted_means`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.spec import Item
from pipeline.spec_fields import boolean, choice, number
from pipeline.tree.rules.results import NEEDED_COLUMNS
from pipeline.tree.rules.scoring import (
    DEPTH,
    HIGHER,
    LOWER,
    PAIRED,
    RUN,
    WEIGHTED_MEANS,
    Constants,
    Metric,
    PairedConstants,
    ScoringRules,
    rule_mistakes,
)

METHODS = (WEIGHTED_MEANS, PAIRED)
METRIC_KEYS = ("primary", "better", "weight", "guard", "margin")
WHOLE_NUMBERS = ("least_better", "lead")
MOST_DRAWS = 1_000_000


def read_rules(metrics: Item, score: Item | None, blocks: bool) -> ScoringRules:
    """`blocks`: whether the sweep has them."""
    keys = {} if score is None else score.fields("score", ("method", *Constants._fields, *PairedConstants._fields))
    paired = _method(keys, blocks) == PAIRED
    if paired and not blocks:
        keys["method"].wrong(
            "score: method: paired needs to know what repeats a measurement (folds, seeds, periods); "
            "say so in `sweep: blocks:`, with a row of results for each"
        )
    method = PAIRED if paired else f"{WEIGHTED_MEANS}{'' if blocks else ', which it is without `sweep: blocks:`'}"
    for name in sorted(keys.keys() - {"method"} - {*(PairedConstants if paired else Constants)._fields}):
        keys[name].wrong(f"score: {name} means nothing with method {method}")
    found = _rules(metrics, score, Constants() if paired else _constants(keys))
    _check_margins(metrics, found, paired, method)
    return found._replace(paired=_paired(keys)) if paired else found


def _method(keys: dict[str, Item], blocks: bool) -> str:
    if "method" in keys:
        return choice(keys["method"], "score: method", METHODS)
    return PAIRED if blocks else WEIGHTED_MEANS


def _rules(metrics: Item, score: Item | None, constants: Constants) -> ScoringRules:
    read = {name: value.fields(f"metrics: {name}", METRIC_KEYS) for name, value in _named(metrics)}
    primary = [name for name, keys in read.items() if "primary" in keys and boolean(keys["primary"], "primary")]
    if len(primary) != 1:
        metrics.wrong(f"metrics: one of them must have `primary: true`; {len(primary)} of {len(read)} have it")
    found = ScoringRules(primary[0], tuple(_metric(name, keys) for name, keys in read.items()), constants)
    for mistake in rule_mistakes(found):
        (score if score is not None and mistake.startswith("score") else metrics).wrong(mistake)
    return found


def _named(metrics: Item) -> list[tuple[str, Item]]:
    pairs = [*metrics.pairs("metrics")]
    for name, value in pairs:
        if name in NEEDED_COLUMNS:
            value.wrong(f"metrics: {name} is a column that every sweep has; name a column with numbers")
    return pairs


def _metric(name: str, keys: dict[str, Item]) -> Metric:
    what = f"metrics: {name}"
    return Metric(
        name,
        choice(keys["better"], f"{what}: better", (HIGHER, LOWER)) if "better" in keys else HIGHER,
        number(keys["weight"], f"{what}: weight", 0) if "weight" in keys else None,
        boolean(keys["guard"], f"{what}: guard") if "guard" in keys else False,
        number(keys["margin"], f"{what}: margin", 0) if "margin" in keys else None,
    )


def _check_margins(metrics: Item, found: ScoringRules, paired: bool, method: str) -> None:
    for metric, (_, item) in zip(found.metrics, metrics.pairs("metrics"), strict=True):
        if metric.margin is not None and not paired:
            item.wrong(f"metrics: {metric.name}: margin means nothing with method {method}; see `guard_drop`")
        if metric.margin is not None and metric not in found.guards:
            item.wrong(f"metrics: {metric.name}: a margin is for a guard; the primary metric must get better")
        if paired and metric.margin is None and metric in found.guards:
            item.wrong(
                f"metrics: {metric.name}: a guard needs a `margin` with method {PAIRED}: "
                "how much worse it may be, in its own units"
            )


def _paired(keys: dict[str, Item]) -> PairedConstants:
    readers: dict[str, Callable[[Item, str], Any]] = {
        "alpha": _alpha,
        "alpha_over": lambda item, what: choice(item, what, (RUN, DEPTH)),
        "smallest_effect": lambda item, what: number(item, what, 0),
        "draws": _draws,
    }
    given = {name: read(keys[name], f"score: {name}") for name, read in readers.items() if name in keys}
    return PairedConstants(**given)


def _draws(item: Item, what: str) -> int:
    draws = item.count(what, 1000, MOST_DRAWS)
    if draws % 2:
        item.wrong(f"{what}: must be even: each direction is looked at with its opposite")
    return draws


def _alpha(item: Item, what: str) -> float:
    alpha = number(item, what)
    if not 0.001 <= alpha <= 0.5:
        item.wrong(f"{what}: must be from 0.001 to 0.5; the share of runs that may promote something for nothing")
    return alpha


def _constants(keys: dict[str, Item]) -> Constants:
    return Constants(**{name: _constant(name, value) for name, value in keys.items() if name != "method"})


def _constant(name: str, item: Item) -> Any:
    what = f"score: {name}"
    return item.count(what, 0) if name in WHOLE_NUMBERS else number(item, what)
