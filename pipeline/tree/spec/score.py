"""The keys `metrics:` and `score:`: what counts, and by which method it is judged.

Where the sweep says what repeats a measurement, by `blocks:`, the method is `paired`, unless the spec says otherwise;
without blocks there is nothing to tell luck from progress by, and it is `weighted_means`."""

from __future__ import annotations

from pipeline import spec_fields as fields
from pipeline.spec import Item
from pipeline.spec_fields import Field, Schema, Table, Values
from pipeline.tree.rules.scoring import (
    DEPTH,
    HIGHER,
    LOWER,
    PAIRED,
    RUN,
    WEIGHTED_MEANS,
    MeansConstants,
    Metric,
    PairedConstants,
    ScoringRules,
    rule_mistakes,
)
from pipeline.tree.rules.sheet import NEEDED_COLUMNS

MOST_DRAWS = 1_000_000
ALPHA = fields.checked(
    fields.number(),
    lambda alpha: 0.001 <= alpha <= 0.5,
    "must be from 0.001 to 0.5; the share of runs that may promote something for nothing",
    minimum=0.001,
    maximum=0.5,
)
DRAWS = fields.checked(
    fields.count(1000, MOST_DRAWS),
    lambda draws: draws % 2 == 0,
    "must be even: each direction is looked at with its opposite",
    multipleOf=2,
)


METRIC = Table(
    Field("primary", fields.BOOLEAN, "the metric that must not get worse; one of them has it", False),
    Field("better", fields.choice((HIGHER, LOWER)), f"or `{LOWER}`", HIGHER),
    Field("weight", fields.number(0), "its part in the score", without="1.5 for the primary, else 1"),
    Field("guard", fields.BOOLEAN, default=False, help=
          "one that gets worse by more than `guard_drop` is a reason to refuse; with `method: paired`, one that may "
          "have got worse by more than its margin"),
    Field("margin", fields.number(0), needs=("guard",), help=
          "of a guard with `method: paired`: how much worse it may be, in its own units"),
)  # fmt: skip
METRICS_SCHEMA: Schema = fields.object_of(
    METRIC.schema, minProperties=1, propertyNames={"not": {"enum": [*NEEDED_COLUMNS]}}
)
SCORE = Table(
    Field("method", fields.choice((WEIGHTED_MEANS, PAIRED)), without="by blocks", help=
          "`paired`, the default where the sweep has `blocks`: differences by block, tested over all ideas of a depth "
          "at once. `weighted_means`, the default where there are none: means over the configs; relative change "
          "against the baseline, clamped; weighted mean of these"),
    Field("alpha", ALPHA, "`paired`: the share of runs that promote anything though no idea is better"),
    Field("alpha_over", fields.choice((RUN, DEPTH)), "`depth`: the share of depths"),
    Field("smallest_effect", fields.number(0),
          "the least gain of the primary metric that is worth having, in its units"),
    Field("draws", DRAWS, "random directions; an even number"),
    Field("primary_weight", fields.number(),
          "`weighted_means`, like all that follow: weight of the primary metric, unless it has its own"),
    Field("other_weight", fields.number(), "of any other"),
    Field("clamp", fields.number(), "no metric counts for more than being so many times its baseline better or worse"),
    Field("primary_drop", fields.number(), "relative loss of the primary metric that is a reason to refuse"),
    Field("guard_drop", fields.number(), "of a guard"),
    Field("explore", fields.number(), "score from which a candidate is worth exploring"),
    Field("least_better", fields.count(0), "or when so many metrics are better"),
    Field("lead", fields.count(0), "and so many more than are worse"),
    Field("strong", fields.number(), "the grade `strong`, from this score on"),
    Field("promising", fields.number(), "`promising`"),
    Field("mixed", fields.number(), "`mixed`; below it is `weak`"),
    defaults={**PairedConstants._field_defaults, **MeansConstants._field_defaults},
)  # fmt: skip


def read_rules(metrics: Item, score: Item | None, blocks: bool) -> ScoringRules:
    """`blocks`: whether the sweep has them."""
    keys = Values(SCORE, metrics, {}, "") if score is None else SCORE.read(score, "score")
    paired = (keys["method"] or (PAIRED if blocks else WEIGHTED_MEANS)) == PAIRED
    if paired and not blocks:
        keys.wrong(
            "method",
            "method: paired needs to know what repeats a measurement (folds, seeds, periods); "
            "say so in `sweep: blocks:`, with a row of results for each",
        )
    method = PAIRED if paired else f"{WEIGHTED_MEANS}{'' if blocks else ', which it is without `sweep: blocks:`'}"
    for name in sorted(keys.items.keys() - {"method"} - {*(PairedConstants if paired else MeansConstants)._fields}):
        keys.wrong(name, f"{name} means nothing with method {method}")
    found = _rules(metrics, score, MeansConstants() if paired else keys.record(MeansConstants))
    _check_margins(metrics, found, paired, method)
    return found._replace(paired=keys.record(PairedConstants)) if paired else found


def _rules(metrics: Item, score: Item | None, constants: MeansConstants) -> ScoringRules:
    pairs = [*metrics.pairs("metrics")]
    for name, value in pairs:
        if name in NEEDED_COLUMNS:
            value.wrong(f"metrics: {name} is a column that every sweep has; name a column with numbers")
    read = {name: METRIC.read(value, f"metrics: {name}") for name, value in pairs}
    primary = [name for name, keys in read.items() if keys["primary"]]
    if len(primary) != 1:
        metrics.wrong(f"metrics: one of them must have `primary: true`; {len(primary)} of {len(read)} have it")
    found = ScoringRules(primary[0], tuple(keys.record(Metric, name=name) for name, keys in read.items()), constants)
    for mistake in rule_mistakes(found):
        (score if score is not None and mistake.startswith("score") else metrics).wrong(mistake)
    return found


def _check_margins(metrics: Item, rules: ScoringRules, paired: bool, method: str) -> None:
    for metric, (_, item) in zip(rules.metrics, metrics.pairs("metrics"), strict=True):
        what, has_margin = f"metrics: {metric.name}:", metric.margin is not None
        if has_margin and not paired:
            item.wrong(f"{what} margin means nothing with method {method}; see `guard_drop`")
        if has_margin and metric not in rules.guards:
            item.wrong(f"{what} a margin is for a guard; the primary metric must get better")
        if paired and not has_margin and metric in rules.guards:
            worse = "how much worse it may be, in its own units"
            item.wrong(f"{what} a guard needs a `margin` with method {PAIRED}: {worse}")
