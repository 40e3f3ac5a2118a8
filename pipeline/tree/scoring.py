"""Scoring `weighted_means`: how much better a candidate's means are than a baseline's, metric by metric and at large.

For each metric: delta = candidate's mean - baseline's mean, with its sign turned where less is better; relative =
delta / |baseline|, clamped.  From a baseline of zero every change is infinitely large: it counts as the clamp, with its
sign.  score = the mean of the relatives by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Any, NamedTuple

from pipeline.tree.results import Checked, told
from pipeline.tree.rounding import NOISE, relative

HIGHER, LOWER = "higher", "lower"
WEIGHTED_MEANS, PAIRED = "weighted_means", "paired"
RUN, DEPTH = "run", "depth"  # over which alpha holds
SIGN = {HIGHER: 1.0, LOWER: -1.0}
STRONG, PROMISING, MIXED, WEAK = "strong", "promising", "mixed", "weak"
PRIMARY_REGRESSED, RISK_REGRESSED = "primary_metric_regressed", "risk_regressed"
NET_IMPROVEMENT, INSUFFICIENT_SIGNAL = "net_improvement", "insufficient_signal"


class Metric(NamedTuple):
    """A column that counts.  `weight` None: as a primary or another metric has it by default; a `guard` may veto.

    `margin`: how much worse a guard may be, in its own units, where blocks say how sure that is."""

    name: str
    better: str = HIGHER
    weight: float | None = None
    guard: bool = False
    margin: float | None = None


class Constants(NamedTuple):
    """The numbers behind the verdict; `score:` of a spec may give others, by these names."""

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


class Paired(NamedTuple):
    """The numbers behind a verdict by blocks: see docs/trust.md.

    `alpha`: the share of runs (or of depths, by `alpha_over`) in which something is promoted though nothing is better.
    `smallest_effect`: the least gain of the primary metric that is worth having."""

    alpha: float = 0.05
    alpha_over: str = RUN
    smallest_effect: float = 0.0
    draws: int = 10_000


class Rules(NamedTuple):
    """What a run measures, and by what it is judged: the same for all of its comparisons.

    `paired` None: by `weighted_means`, with the `constants`."""

    primary: str
    metrics: tuple[Metric, ...]
    constants: Constants = Constants()
    paired: Paired | None = None

    @property
    def guards(self) -> list[Metric]:
        """Apart from the primary one, of which more is asked."""
        return [metric for metric in self.metrics if metric.guard and metric.name != self.primary]


class Detail(NamedTuple):
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
    """The verdict on a candidate against one baseline.  `score` None: the way of scoring has none.

    `evidence`: of a verdict by blocks, as `weighing` has it."""

    score: float | None
    grade: str
    should_explore: bool
    reasons: tuple[str, ...]
    primary_delta: float
    better: int
    worse: int
    rows_used: int
    metrics: tuple[Detail, ...]
    evidence: Mapping[str, Any] | None = None


class Score(NamedTuple):
    """Against the parent, which the gate reads, and against the root, by which candidates of all parents are ranked."""

    parent: Comparison
    root: Comparison


def mistakes(rules: Rules) -> tuple[str, ...]:
    """What is wrong with rules, in words; such rules must not be used."""
    names = [metric.name for metric in rules.metrics]
    c = rules.constants
    checks = (
        (rules.primary in names, f"primary: '{rules.primary}' is none of the metrics: {', '.join(names)}"),
        (len({*names}) == len(names), "metrics: a name is given twice"),
        (all(m.better in SIGN for m in rules.metrics), f"better: must be {HIGHER} or {LOWER}"),
        (all(isfinite(w) and w >= 0 for w in _weights(rules)), "weight: must be a number from 0 on"),
        (any(w > 0 for w in _weights(rules)), "weight: one metric at least must weigh more than 0"),
        (all(map(isfinite, c)), "score: must have finite numbers"),
        (min(_drops(c)) >= 0 and max(_drops(c)) < c.clamp, "score: a drop must be from 0 to below `clamp`"),
        (c.strong >= c.promising >= c.mixed, "score: must have strong >= promising >= mixed"),
    )
    return tuple(what for good, what in checks if not good)


def _drops(constants: Constants) -> tuple[float, float]:
    return constants.primary_drop, constants.guard_drop


def _weights(rules: Rules) -> list[float]:
    return [weight(rules, metric) for metric in rules.metrics]


def weight(rules: Rules, metric: Metric) -> float:
    if metric.weight is not None:
        return metric.weight
    return rules.constants.primary_weight if metric.name == rules.primary else rules.constants.other_weight


def score(rules: Rules, candidate: Checked, parent: Checked, root: Checked) -> Score:
    return Score(weighted_means(rules, parent, candidate), weighted_means(rules, root, candidate))


def weighted_means(rules: Rules, baseline: Checked, candidate: Checked) -> Comparison:
    """Both must be complete: otherwise a candidate would get better by failing where it is bad."""
    _comparable(baseline, candidate)
    details = tuple(_detail(rules, metric, baseline, candidate) for metric in rules.metrics)
    return judged(rules, details, candidate.rows_used)


def _comparable(baseline: Checked, candidate: Checked) -> None:
    for side, checked in (("baseline", baseline), ("candidate", candidate)):
        if checked.defects or not checked.rows:
            raise ValueError(f"the {side} is not complete: {told(checked.defects) or 'no rows'}")
    if [(row.config_id, row.block) for row in baseline.rows] != [(row.config_id, row.block) for row in candidate.rows]:
        raise ValueError("baseline and candidate are of different configs")


def _detail(rules: Rules, metric: Metric, baseline: Checked, candidate: Checked) -> Detail:
    old = [row.metrics[metric.name] for row in baseline.rows]
    new = [row.metrics[metric.name] for row in candidate.rows]
    return detail(rules, metric, old, new)


def detail(rules: Rules, metric: Metric, old: Sequence[float], new: Sequence[float]) -> Detail:
    """From what was measured with the baseline's code and with the candidate's."""
    base, mean = fsum(old) / len(old), fsum(new) / len(new)
    sizes = [fsum(map(abs, values)) / len(values) for values in (old, new)]
    delta = SIGN[metric.better] * (mean - base) if abs(mean - base) > NOISE * max(sizes) else 0.0
    share = _share(delta, base, rules.constants.clamp)
    return Detail(metric.name, metric.better, weight(rules, metric), metric.guard, base, mean, delta, share)


def _share(delta: float, base: float, clamp: float) -> float:
    if not delta:
        return 0.0
    if not base:
        return clamp if delta > 0 else -clamp
    return relative(max(-clamp, min(clamp, delta / abs(base))))


def judged(rules: Rules, details: tuple[Detail, ...], rows_used: int) -> Comparison:
    """From how each metric moved to the verdict."""
    c = rules.constants
    primary = next(detail for detail in details if detail.name == rules.primary)
    total = relative(fsum(d.weight * d.relative for d in details) / fsum(d.weight for d in details))
    better, worse = counted(details)
    blocks = [PRIMARY_REGRESSED] if primary.relative < -c.primary_drop else []
    blocks += [f"{RISK_REGRESSED}:{d.name}" for d in details if d.guard and d.relative < -c.guard_drop]
    signal = total >= c.explore or better >= max(c.least_better, worse + c.lead)
    explore = signal and not blocks
    reasons = (*blocks, *([] if signal else [INSUFFICIENT_SIGNAL]), *([NET_IMPROVEMENT] if explore else []))
    return Comparison(total, grade(total, c), explore, reasons, primary.delta, better, worse, rows_used, details)


def counted(details: Sequence[Detail]) -> tuple[int, int]:
    """How many metrics that weigh something are better, and how many worse."""
    signs = [d.delta > 0 for d in details if d.delta and d.weight]
    return sum(signs), len(signs) - sum(signs)


def grade(score: float, constants: Constants) -> str:
    steps = ((STRONG, constants.strong), (PROMISING, constants.promising), (MIXED, constants.mixed))
    return next((name for name, least in steps if score >= least), WEAK)
