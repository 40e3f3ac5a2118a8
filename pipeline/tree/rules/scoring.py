"""Scores of a candidate against a baseline: by means, by blocks, and config by config.

`weighted_means`, for each metric: delta = candidate's mean - baseline's mean, with its sign turned where less is
better; relative = delta / |baseline|, clamped.  From a baseline of zero every change is infinitely large: it counts as
the clamp, with its sign.  score = the mean of the relatives by weight.

`paired` turns the evidence of blocks into a verdict in the words of the gate: an idea is worth exploring if it is
better than chance allows among all that were tried beside it, by the smallest effect at least, with no guard in doubt.
Nothing else is: luck must not become the ground of the next depth.  Configs are reduced first: they share their data
and are no repetitions of each other; blocks are.

Float noise: numbers are compared only after rounding.  Means are sums without rounding errors (fsum).  A difference of
means counts as none if it is at most SAME of the size of the rows.  Relative numbers and scores are of the order of one
and keep 12 decimals; all others (the delta that breaks a tie, sums of money) keep 12 significant digits."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from math import copysign, fsum
from typing import Any, NamedTuple

from pipeline.core.text import round_decimals
from pipeline.tree.rules.sheet import CheckedRows, Defect, SheetRow, csv_lines, csv_rows, defects_text
from pipeline.trust.evidence import INDECISIVE, PROMOTED, REJECTED, Verdict
from pipeline.trust.noninferiority import FAILED, UNDECIDED, mean_reach
from pipeline.trust.series import DIGITS, SAME, differences, reduce_configs, round_significant

round_relative = partial(round_decimals, digits=DIGITS)


HIGHER, LOWER = "higher", "lower"
WEIGHTED_MEANS, PAIRED = "weighted_means", "paired"
RUN, DEPTH = "run", "depth"  # values of `alpha_over`
SIGN = {HIGHER: 1.0, LOWER: -1.0}
STRONG, PROMISING, MIXED, WEAK = "strong", "promising", "mixed", "weak"
PRIMARY_REGRESSED, RISK_REGRESSED = "primary_metric_regressed", "risk_regressed"
NET_IMPROVEMENT, INSUFFICIENT_SIGNAL = "net_improvement", "insufficient_signal"


class Metric(NamedTuple):
    """A column that counts.  `weight` None: the default of a primary or another metric; a `guard` may veto.

    `margin`: how much worse a guard may be, in its own units, in a verdict by blocks."""

    name: str
    better: str = HIGHER
    weight: float | None = None
    guard: bool = False
    margin: float | None = None


class MeansConstants(NamedTuple):
    """The constants of a verdict by means; `score:` of a spec may set others, by these names."""

    primary_weight: float = 1.5
    other_weight: float = 1.0
    clamp: float = 2.0  # no metric counts for more than being so many times its baseline better
    primary_drop: float = 0.05  # the primary metric may be worse by so much
    guard_drop: float = 0.10  # and a guard by so much
    explore: float = 0.03  # from this score on a candidate is worth exploring;
    least_better: int = 2  # or if so many metrics are better,
    lead: int = 2  # and so many more than are worse
    strong: float = 0.10  # grades, from these scores on
    promising: float = 0.03
    mixed: float = -0.02


class PairedConstants(NamedTuple):
    """The constants of a verdict by blocks: see docs/trust.md.

    `alpha`: the share of runs (or of depths, by `alpha_over`) in which something is promoted though nothing is better.
    `smallest_effect`: the least gain of the primary metric that is worth having."""

    alpha: float = 0.05
    alpha_over: str = RUN
    smallest_effect: float = 0.0
    draws: int = 10_000


class ScoringRules(NamedTuple):
    """Metrics and constants of a run: the same for all of its comparisons.

    `paired` None: by `weighted_means`, with the `constants`."""

    primary: str
    metrics: tuple[Metric, ...]
    constants: MeansConstants = MeansConstants()
    paired: PairedConstants | None = None

    @property
    def guards(self) -> list[Metric]:
        """The guards but the primary metric, which has stricter checks."""
        return [metric for metric in self.metrics if metric.guard and metric.name != self.primary]


class MetricComparison(NamedTuple):
    """One metric in a comparison.  More `delta` is better, whatever the metric's direction."""

    name: str
    better: str
    weight: float
    guard: bool
    baseline: float
    candidate: float
    delta: float
    relative: float


class Comparison(NamedTuple):
    """The verdict on a candidate against one baseline.  `score` None: the method has none.

    `evidence`: of a verdict by blocks, as weigh_against gives it."""

    score: float | None
    grade: str
    should_explore: bool
    reasons: tuple[str, ...]
    primary_delta: float
    better: int
    worse: int
    rows_used: int
    metrics: tuple[MetricComparison, ...]
    evidence: Mapping[str, Any] | None = None


class Score(NamedTuple):
    """Comparisons with the parent, for the gate, and with the root, to rank candidates of all parents."""

    parent: Comparison
    root: Comparison


def rule_mistakes(rules: ScoringRules) -> tuple[str, ...]:
    """Mistakes in rules, in words, beyond those that a single key of the spec can have."""
    weights = [metric_weight(rules, metric) for metric in rules.metrics]
    c = rules.constants
    drops = (c.primary_drop, c.guard_drop)
    checks = (
        (min(weights) >= 0, "weight: must be a number from 0 on"),
        (max(weights) > 0, "weight: one metric at least must weigh more than 0"),
        (min(drops) >= 0 and max(drops) < c.clamp, "score: a drop must be from 0 to below `clamp`"),
        (c.strong >= c.promising >= c.mixed, "score: must have strong >= promising >= mixed"),
    )
    return tuple(what for good, what in checks if not good)


def metric_weight(rules: ScoringRules, metric: Metric) -> float:
    if metric.weight is not None:
        return metric.weight
    return rules.constants.primary_weight if metric.name == rules.primary else rules.constants.other_weight


def score_by_means(rules: ScoringRules, candidate: CheckedRows, parent: CheckedRows, root: CheckedRows) -> Score:
    return Score(weighted_means(rules, parent, candidate), weighted_means(rules, root, candidate))


def weighted_means(rules: ScoringRules, baseline: CheckedRows, candidate: CheckedRows) -> Comparison:
    """Compare by means.  Both sides must be complete, or a candidate would get better by failing where it is bad."""
    for side, checked in (("baseline", baseline), ("candidate", candidate)):
        if checked.defects or not checked.rows:
            raise ValueError(f"the {side} is not complete: {defects_text(checked.defects) or 'no rows'}")
    if [(row.config_id, row.block) for row in baseline.rows] != [(row.config_id, row.block) for row in candidate.rows]:
        raise ValueError("baseline and candidate are of different configs")
    details = []
    for metric in rules.metrics:
        old, new = ([row.metrics[metric.name] for row in side.rows] for side in (baseline, candidate))
        details.append(metric_detail(rules, metric, old, new))
    return judge_details(rules, details, candidate.rows_used)


def metric_detail(rules: ScoringRules, metric: Metric, old: Sequence[float], new: Sequence[float]) -> MetricComparison:
    """The detail of a metric, from its values with the baseline's code and with the candidate's."""
    base, mean = fsum(old) / len(old), fsum(new) / len(new)
    sizes = [fsum(map(abs, values)) / len(values) for values in (old, new)]
    delta = SIGN[metric.better] * (mean - base) if abs(mean - base) > SAME * max(sizes) else 0.0
    clamp, weight = rules.constants.clamp, metric_weight(rules, metric)
    if delta:
        share = round_relative(max(-clamp, min(clamp, delta / abs(base)))) if base else copysign(clamp, delta)
    else:
        share = 0.0
    return MetricComparison(metric.name, metric.better, weight, metric.guard, base, mean, delta, share)


def judge_details(rules: ScoringRules, details: Sequence[MetricComparison], rows_used: int) -> Comparison:
    """The verdict by means, from the change of each metric."""
    c = rules.constants
    primary = next(detail for detail in details if detail.name == rules.primary)
    total = round_relative(fsum(d.weight * d.relative for d in details) / fsum(d.weight for d in details))
    better, worse = count_better_worse(details)
    blocks = [PRIMARY_REGRESSED] if primary.relative < -c.primary_drop else []
    blocks += [f"{RISK_REGRESSED}:{d.name}" for d in details if d.guard and d.relative < -c.guard_drop]
    signal = total >= c.explore or better >= max(c.least_better, worse + c.lead)
    explore = signal and not blocks
    reasons = (*blocks, *([] if signal else [INSUFFICIENT_SIGNAL]), *([NET_IMPROVEMENT] if explore else []))
    steps = ((STRONG, c.strong), (PROMISING, c.promising), (MIXED, c.mixed))
    grade = next((name for name, least in steps if total >= least), WEAK)
    return Comparison(total, grade, explore, reasons, primary.delta, better, worse, rows_used, tuple(details))


def count_better_worse(details: Sequence[MetricComparison]) -> tuple[int, int]:
    """The numbers of weighted metrics that are better and worse."""
    signs = [d.delta > 0 for d in details if d.delta and d.weight]
    return sum(signs), len(signs) - sum(signs)


def block_means(rows: Sequence[SheetRow], blocks: Sequence[str], metric: str) -> list[float]:
    """The mean over the configs in each block, of complete rows."""
    return reduce_configs(config_rows(rows, blocks, metric))


def config_rows(rows: Sequence[SheetRow], blocks: Sequence[str], metric: str) -> list[list[float]]:
    """A metric as a table: a row a config, a column a block."""
    by_config: dict[int, dict[str, float]] = {}
    for row in rows:
        by_config.setdefault(row.config_id, {})[row.block] = row.metrics[metric]
    return [[cells[block] for block in blocks] for cells in by_config.values()]


def seed_defects(own: CheckedRows, parent: CheckedRows) -> Iterator[Defect]:
    """Rows with other seeds than the parent's: such a candidate is not measured on the same data."""
    seeds = {(row.config_id, row.block): row.seed for row in parent.rows}
    for row in own.rows:
        if row.seed != (seed := seeds[row.config_id, row.block]):
            yield Defect(row.config_id, "seed", f"'{row.seed}' instead of the parent's '{seed}'", row.block)


AGAINST_PARENT, AGAINST_ROOT = "parent", "root"
RISK_UNDECIDED = "risk_undecided"

Series = Mapping[str, Mapping[str, Sequence[float]]]  # metric -> own, parent, root -> a number a block


def metric_differences(rules: ScoringRules, series: Series, name: str, baseline: str) -> list[float]:
    """Differences of a metric by block; more is better."""
    metric = next(metric for metric in rules.metrics if metric.name == name)
    return differences(series[name]["own"], series[name][baseline], SIGN[metric.better])


def apply_guards(decided: Verdict, guards: Sequence[Mapping[str, Any]]) -> Verdict:
    """Refuse a gain at the price of a guard, or while that price is not known."""
    if decided.verdict != PROMOTED:
        return decided
    failed = [f"{RISK_REGRESSED}:{guard['name']}" for guard in guards if guard["verdict"] == FAILED]
    undecided = [f"{RISK_UNDECIDED}:{guard['name']}" for guard in guards if guard["verdict"] == UNDECIDED]
    if failed or undecided:
        return Verdict(REJECTED if failed else INDECISIVE, (*failed, *undecided))
    return decided


def paired_comparison(
    rules: ScoringRules, series: Series, baseline: str, evidence: Mapping[str, Any], rows_used: int
) -> Comparison:
    """A comparison by blocks.  `score` is the estimate, shrunk: the best of many owes a part to luck."""
    sides = [(metric, series[metric.name]) for metric in rules.metrics]
    details = tuple(metric_detail(rules, metric, side[baseline], side["own"]) for metric, side in sides)
    delta = next(each.delta for each in details if each.name == rules.primary)
    promoted = evidence["verdict"] == PROMOTED
    reasons = (NET_IMPROVEMENT,) if promoted else tuple(evidence["reasons"])
    counts = (*count_better_worse(details), rows_used)
    grade = STRONG if promoted else WEAK
    return Comparison(evidence["estimate"], grade, promoted, reasons, delta, *counts, details, evidence)


class ConfigComparison(NamedTuple):
    """The primary metric config by config: how many got better, worse or stayed, and the range.

    `beyond`: of several configs, the worst is better than the parent's best one.  Honest ideas hardly ever do that,
    while of a single config it would only say that it got better."""

    better: int
    worse: int
    same: int
    parent_best: float
    own_worst: float
    beyond: bool


def compare_configs(better: str, parent: Mapping[int, float], own: Mapping[int, float]) -> ConfigComparison:
    """Compare two sides config by config; both have the same configs."""
    sign = SIGN[better]
    old, new = ([sign * side[config] for config in parent] for side in (parent, own))
    signs = [_compare_numbers(after, before) for before, after in zip(old, new, strict=True)]
    better_worse_same, best, worst = (signs.count(1), signs.count(-1), signs.count(0)), max(old), min(new)
    beyond = len(parent) > 1 and _compare_numbers(worst, best) > 0
    return ConfigComparison(*better_worse_same, sign * best, sign * worst, beyond)


class BestConfig(NamedTuple):
    """The best config of a candidate beside the parent's, by the primary metric; more `gain` is better.

    `same`: the candidate's best config less the parent at that config.  `gain`: best less best; `low` and `high` hold
    the difference of the two configs for all pairs of configs that might have been the best, with 95 % together; None
    where that is not known.  `mean_gain`: over all configs; `disagrees`: it has another sign than `gain`."""

    config: int
    own: float
    parent: float
    same: float
    parent_config: int
    parent_best: float
    gain: float
    low: float | None
    high: float | None
    mean_gain: float
    disagrees: bool

    @property
    def text(self) -> str:
        """Both gains in words."""
        known = self.low is not None and self.high is not None
        sure = f" ({self.low:+.4g} to {self.high:+.4g})" if known else " (how sure that is is not known)"
        return f"{self.mean_gain:+.4g} in the mean, {self.gain:+.4g} at the best config {self.config}{sure}"


Table = Mapping[int, Sequence[float]]  # config -> a number a block, in the order of blocks


def best_config(better: str, parent: Table, own: Table, **dependence: Any) -> BestConfig:
    """Compare the best configs of both sides, which have the same configs and blocks.

    The interval is that of t over blocks for one pair of configs.  Which pair it would be was chosen by the same
    blocks, so the level is shared among all pairs (Bonferroni).  `dependence`: of blocks, as `mean_reach` takes it."""
    sign, (old, new) = SIGN[better], map(means_by_config, (parent, own))
    at, before = (max(side, key=lambda config: (sign * side[config], -config)) for side in (new, old))
    gain, same = (sign * difference for difference in (new[at] - old[before], new[at] - old[at]))
    deltas = differences(own[at], parent[before], sign)
    reach = mean_reach(deltas, 0.05 / len(own) ** 2, **dependence)
    low, high = (None, None) if reach is None else (round_significant(gain - reach), round_significant(gain + reach))
    mean = sign * fsum(new[config] - old[config] for config in old) / len(old)
    mean, gain, same = map(round_significant, (mean, gain, same))
    disagrees = mean * gain < 0
    return BestConfig(at, new[at], old[at], same, before, old[before], gain, low, high, mean, disagrees)


def column_by_config(text: str, name: str, configs: Container[int], block: str = "") -> dict[int, dict[str, float]]:
    """A column of a CSV known to be complete: config -> block -> number; a tenth of the cost of `read_sheet`."""
    rows = (cells for _, cells in csv_rows(csv_lines(text)) if any(map(str.strip, cells)))
    header = [cell.strip() for cell in next(rows)]
    if name not in header:  # a metric of a later day
        return {}
    at, value, of_block = header.index("config_id"), header.index(name), header.index(block) if block else -1
    found: dict[int, dict[str, float]] = {}
    for cells in rows:
        if (config := int(cells[at])) in configs:
            found.setdefault(config, {})[cells[of_block].strip() if block else ""] = float(cells[value])
    return found


def means_by_config(table: Table) -> dict[int, float]:
    return {config: fsum(row) / len(row) for config, row in table.items()}


def _compare_numbers(after: float, before: float) -> int:
    if abs(after - before) <= SAME * max(abs(after), abs(before)):
        return 0
    return 1 if after > before else -1
