"""Scoring `paired`: from the evidence of blocks to a verdict on each idea of a depth, in the words of the gate.

An idea is worth exploring if it is promoted: better than chance allows among all that were tried beside it, by as much
as is worth having, with no guard in doubt.  Nothing else is: luck must not become the ground of the next depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.tree.scoring import (
    NET_IMPROVEMENT,
    RISK_REGRESSED,
    SIGN,
    STRONG,
    WEAK,
    Comparison,
    Metric,
    Rules,
    counted,
    detail,
)
from pipeline.trust.blocks import differences
from pipeline.trust.noninferiority import FAILED, UNDECIDED
from pipeline.trust.verdicts import INDECISIVE, PROMOTED, REJECTED, Verdict

PARENT, ROOT = "parent", "root"
RISK_UNDECIDED = "risk_undecided"

Series = Mapping[str, Mapping[str, Sequence[float]]]  # metric -> own, parent, root -> a number a block


def of_metric(rules: Rules, series: Series, name: str, baseline: str) -> list[float]:
    """Differences by block; more is better."""
    metric = next(metric for metric in rules.metrics if metric.name == name)
    return differences(series[name]["own"], series[name][baseline], SIGN[metric.better])


def ruled(found: Verdict, guards: Sequence[Mapping[str, Any]]) -> Verdict:
    """A gain is not promoted at the price of a guard, nor while that price is not known."""
    if found.verdict != PROMOTED:
        return found
    failed = tuple(f"{RISK_REGRESSED}:{guard['name']}" for guard in guards if guard["verdict"] == FAILED)
    open_ = tuple(f"{RISK_UNDECIDED}:{guard['name']}" for guard in guards if guard["verdict"] == UNDECIDED)
    if failed or open_:
        return Verdict(REJECTED if failed else INDECISIVE, (*failed, *open_))
    return found


def comparison(rules: Rules, series: Series, baseline: str, evidence: Mapping[str, Any], rows_used: int) -> Comparison:
    """`score` is the estimate, shrunk: of what looks best among many, part is luck."""
    details = tuple(_detail(rules, metric, series[metric.name], baseline) for metric in rules.metrics)
    primary = next(each for each in details if each.name == rules.primary)
    promoted = evidence["verdict"] == PROMOTED
    reasons = [NET_IMPROVEMENT] if promoted else evidence["reasons"]
    return Comparison(
        evidence["estimate"],
        STRONG if promoted else WEAK,
        promoted,
        tuple(reasons),
        primary.delta,
        *counted(details),
        rows_used,
        details,
        evidence,
    )


def _detail(rules: Rules, metric: Metric, series: Mapping[str, Sequence[float]], baseline: str) -> Any:
    return detail(rules, metric, series[baseline], series["own"])
