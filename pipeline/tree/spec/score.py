"""The keys `metrics:`, `score:` and `blocks:`: what counts, by which method it is judged, and what shows its luck.

Where the sweep says what repeats a measurement, by `blocks:`, the method is `paired`, unless the spec says otherwise;
without blocks there is nothing to tell luck from progress by, and it is `weighted_means`.  Blocks repeat the
measurement of a config: folds, seeds, periods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pipeline import spec_fields as fields
from pipeline.spec import Item
from pipeline.spec_fields import Field, FieldTable, Reader, Schema, Values
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
from pipeline.tree.spec.model import Blocks
from pipeline.trust.series import LARGEST_RHO

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


METRIC = FieldTable(
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
SCORE = FieldTable(
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


NO_ORDER, TIME_ORDER = "none", "time"
BLOCK_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,60}")
MOST_BLOCKS = 10_000
MOST_IN_TIME = 1_000  # their coordinates grow with the square of it


def _block_column(item: Item, what: str) -> str:
    name = item.text(what)
    if not name or name in NEEDED_COLUMNS:
        item.wrong(f"{what}: '{name}' cannot be it; name the column that tells blocks apart")
    return name


def _ids(item: Item, what: str) -> tuple[str, ...]:
    if not item.is_list:
        return tuple(map(str, range(item.count(what, 1, MOST_BLOCKS))))
    ids: dict[str, None] = {}
    for each in item.items(what):
        name = each.text(what)
        if not BLOCK_ID.fullmatch(name):
            each.wrong(f"{what}: '{name}' cannot be the name of a block; use letters, digits and _ . : + -")
        if name in ids:
            each.wrong(f"{what}: {name} is there twice")
        ids[name] = None
    if not 1 <= len(ids) <= MOST_BLOCKS:
        item.wrong(f"{what}: {len(ids)} blocks; there must be from 1 to {MOST_BLOCKS}")
    return tuple(ids)


IDS = Reader(
    _ids,
    fields.any_of(
        fields.count(1, MOST_BLOCKS).schema,
        fields.list_of({**fields.TEXT.schema, "pattern": f"^{BLOCK_ID.pattern}$"}, minItems=1, maxItems=MOST_BLOCKS),
    ),
)
RHO = fields.checked(
    fields.number(0),
    lambda rho: rho <= LARGEST_RHO,
    f"must be from 0 to {LARGEST_RHO}; blocks more alike are one: make them longer",
    maximum=LARGEST_RHO,
)
REPEATS = fields.as_item(
    fields.any_of(fields.count(2).schema, {"type": "string", "minLength": 1}),
)
BLOCKS = FieldTable(
    Field("ids", IDS, without="the root's", help=
          "how many there are (called 0, 1, …), or their names in a list. A command may then name `{blocks}`: their "
          "names with commas between. Without `ids` those of the root's baseline are the rule"),
    Field("column", Reader(_block_column, {**fields.SOME_TEXT, "not": {"enum": [*NEEDED_COLUMNS]}}), default="block",
          help="the column that has the name of the block"),
    Field("order", fields.choice((NO_ORDER, TIME_ORDER)), default=NO_ORDER, help=
          "`time`: they follow each other in time, as listed, or else by their names; neighbours may then be alike"),
    Field("rho", RHO, without="estimated", needs=("order",), help=
          f"with `order: time`: the correlation of neighbours, if it is known; at most {LARGEST_RHO}"),
    Field("repeats", REPEATS, without="none", needs=("ids",), help=
          "blocks are folds of a split that is repeated, as by `RepeatedKFold`: how often, if `ids` has one repeat "
          "after the other; or a pattern that finds the repeat in the name of a block, such as `r([0-9]+)`. Repeats "
          "measure the same data again: [trust.md](trust.md#repeated-splits)"),
)  # fmt: skip


def read_blocks(item: Item, what: str) -> Blocks:
    """A number of blocks or a list of their ids is short for a mapping with `ids`."""
    if not item.is_map or item.is_bare_name:
        return Blocks(_ids(item, what))
    keys = BLOCKS.read(item, what)
    ordered, ids = keys["order"] == TIME_ORDER, keys["ids"]
    if ordered and ids and len(ids) > MOST_IN_TIME:
        keys.wrong("ids", f"ids: {len(ids)} blocks in the order of time; make them longer, {MOST_IN_TIME} is most")
    if "rho" in keys and not ordered:
        keys.wrong("rho", "rho: how alike neighbours are means something with `order: time` only")
    found = Blocks(ids, keys["column"], ordered, keys["rho"])
    return found._replace(repeats=_repeats(keys, found)) if "repeats" in keys else found


def _repeats(keys: Values, blocks: Blocks) -> tuple[int, ...]:
    """The repeat that each block is of."""
    item, what = keys["repeats"], f"{keys.before}repeats"
    if blocks.ordered:
        item.wrong(f"{what}: folds of a split that is repeated are in no order of time; leave one of the two out")
    ids = blocks.ids or ()
    if not ids:
        item.wrong(f"{what}: say in `ids:` which blocks there are: the number of all folds, or their names")
    if isinstance(item.plain(), int):
        count = item.count(what, 2)
        if len(ids) % count:
            item.wrong(f"{what}: {len(ids)} blocks are not {count} times the same number of folds")
        names = [str(n * count // len(ids)) for n in range(len(ids))]
    else:
        names = _repeat_names(item, what, ids)
    sizes = Counter(names)  # in the order of their first folds
    number = {name: n for n, name in enumerate(sizes)}
    if len({*sizes.values()}) > 1:
        few, most = (pick(sizes, key=lambda name: sizes[name]) for pick in (min, max))
        item.wrong(f"{what}: repeat {few} has {sizes[few]} folds and {most} has {sizes[most]}; all must have as many")
    if len(sizes) < 2 or len(ids) < 2 * len(sizes):
        folds = len(ids) // max(1, len(sizes))
        item.wrong(f"{what}: {len(sizes)} repeats of {folds} folds; there must be two or more of each")
    return tuple(number[name] for name in names)


def _repeat_names(item: Item, what: str, ids: Sequence[str]) -> list[str]:
    try:
        pattern = re.compile(item.text(what))
    except re.error as error:
        item.wrong(f"{what}: not a pattern: {error}; such as r([0-9]+)")
    if pattern.groups != 1:
        item.wrong(f"{what}: one part of the pattern must stand in (...), the name of the repeat; {pattern.groups} do")
    found = {name: pattern.search(name) for name in ids}
    if without := [name for name, match in found.items() if not match or not match[1]]:
        item.wrong(f"{what}: the pattern finds no repeat in the block {without[0]}")
    return [match[1] for match in found.values() if match]


BLOCKS_READER = Reader(read_blocks, fields.any_of(IDS.schema, BLOCKS.schema))
