"""The product's rule over many simulated depths, and the rules that people use beside it.

Each takes deltas [depth, idea, config, block] and says which ideas it promotes: [depth, idea]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from benchmarks.trust.worlds import CONFIGS
from pipeline.tree.rules.beam import COMPLETED, Evaluation, first_failed_check
from pipeline.tree.rules.positions import EvalSlot
from pipeline.tree.rules.scoring import Metric, ScoringRules, score_by_means
from pipeline.tree.rules.sheet import CheckedRows, SheetRow
from pipeline.trust.distributions import t_quantile
from pipeline.trust.evidence import JointTest
from pipeline.trust.rule import weigh

Array = Any
ALPHA = 0.05
DRAWS = 1_000  # the test keeps its level at any number of them; the product's 10,000 cost more and find a little more
RESAMPLES = 1_000
LEVEL = 1.0  # a baseline's metric, for what reckons relative to it


def weighed(blocks: Array, start: int = 0, *, alpha: float = ALPHA, draws: int = DRAWS, **how: Any) -> list[JointTest]:
    """Of block means [depth, idea, block]."""
    return [weigh(d.tolist(), alpha=alpha, seed=start + i, draws=draws, **how) for i, d in enumerate(blocks)]


def promoted(found: Sequence[JointTest], alpha: float = ALPHA) -> Array:
    return np.array([[e.p <= alpha for e in depth.ideas] for depth in found])


def column(found: Sequence[JointTest], name: str) -> Array:
    """[depth, idea]: one number of the evidence."""
    return np.array([[getattr(e, name) for e in depth.ideas] for depth in found])


def coppice(deltas: Array) -> Array:
    return promoted(weighed(deltas.mean(axis=2)))


def mean_above_zero(deltas: Array) -> Array:
    return deltas.mean(axis=(2, 3)) > 0


def two_errors(deltas: Array) -> Array:
    """A mean of more than two standard errors over blocks."""
    blocks = deltas.mean(axis=2)
    return blocks.mean(axis=2) > 2 * blocks.std(axis=2, ddof=1) / blocks.shape[2] ** 0.5


def t_over_configs(deltas: Array) -> Array:
    """Configs taken for repetitions."""
    configs = deltas.mean(axis=3)
    error = configs.std(axis=2, ddof=1) / CONFIGS**0.5
    return configs.mean(axis=2) > t_quantile(1 - ALPHA, CONFIGS - 1) * error


def bootstrap(deltas: Array) -> Array:
    """Percentiles of the mean over resampled blocks; alpha is divided by the number of ideas."""
    blocks = deltas.mean(axis=2)
    ideas, count = blocks.shape[1:]
    weights = np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), RESAMPLES) / count
    means = blocks.reshape(-1, count) @ weights.T
    place = int(ALPHA / ideas * RESAMPLES)
    return (np.partition(means, place, axis=1)[:, place] > 0).reshape(-1, ideas)


def weighted_means(deltas: Array) -> Array:
    """The heuristic gate.  With one metric it is the sign of the mean, which is looked at by the real one for a few."""
    means = deltas.mean(axis=(2, 3))
    says = means >= 0
    for depth in range(0, len(deltas), max(1, len(deltas) // 2)):
        if _passes(deltas[depth, 0].mean(axis=1)) != says[depth, 0]:
            raise AssertionError("the gate does not go by the sign of the mean")
    return says


def _passes(configs: Array) -> bool:
    sides = [_rows(LEVEL + delta) for delta in (configs, 0 * configs)]
    found = score_by_means(ScoringRules("m", (Metric("m"),)), sides[0], sides[1], sides[1])
    names = {"commit": "c", "tree": "t", "results": "r", "baseline": "b"}
    ended = Evaluation(EvalSlot(1, 0, 0), COMPLETED, **names, approved=True, score=found)
    return first_failed_check(ended._replace(rows_used=CONFIGS, rows_expected=CONFIGS)) is None


def _rows(values: Array) -> CheckedRows:
    return CheckedRows(tuple(SheetRow(i, "", {"m": float(v)}) for i, v in enumerate(values)), ())


RULES: dict[str, Callable[[Array], Array]] = {
    "coppice": coppice,
    "weighted_means": weighted_means,
    "mean > 0": mean_above_zero,
    "paired t over configs": t_over_configs,
    "mean > 2 SE": two_errors,
    "percentile bootstrap": bootstrap,
}


@cache
def oracle_critical(ideas: int, alpha: float = ALPHA) -> float:
    """Of the largest of normal numbers that are correlated by .5."""
    rng = np.random.default_rng(1)
    z = (rng.standard_normal((400_000, 1)) + rng.standard_normal((400_000, ideas))) / 2**0.5
    return float(np.quantile(z.max(axis=1), 1 - alpha))


def first(t: Array, wins: Array) -> Array:
    """[depth]: idea 0 is promoted, and no other is as good."""
    return (t.argmax(axis=1) == 0) & wins[:, 0]
