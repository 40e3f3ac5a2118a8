"""Scores and evaluations as records, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.tree.gate import Evaluation
from pipeline.tree.records import Record
from pipeline.tree.scoring import PAIRED, Comparison, Constants, Detail, Metric, Paired, Rules, Score
from pipeline.tree.slots import Slot

# Of an evaluation, as they stand in its summary.
PLAIN = ("status", "why", "commit", "tree", "approved", "rows_used", "rows_expected")


def rules_of(params: Mapping[str, Any]) -> Rules:
    metrics = tuple(Metric(**metric) for metric in params["metrics"])
    if params["method"] == PAIRED:
        return Rules(params["primary"], metrics, paired=Paired(**params["score"]))
    return Rules(params["primary"], metrics, Constants(**params["score"]))


def recommendation(comparison: Comparison) -> Record:
    return comparison._asdict() | {
        "reasons": [*comparison.reasons],
        "metrics": [detail._asdict() for detail in comparison.metrics],
    }


def comparison_of(record: Mapping[str, Any]) -> Comparison:
    details = tuple(Detail(**detail) for detail in record["metrics"])
    return Comparison(**{**record, "reasons": tuple(record["reasons"]), "metrics": details})


def scoring_summary(score: Score | None) -> Record | None:
    if score is None:
        return None
    return {"recommendation": recommendation(score.parent), "root_recommendation": recommendation(score.root)}


def summary_of(evaluation: Evaluation) -> Record:
    """Without its slot: the same work comes to the same summary wherever it is done."""
    return {
        **{name: getattr(evaluation, name) for name in PLAIN},
        "results_sha256": evaluation.results,
        "baseline_sha256": evaluation.baseline,
        "defects": [*evaluation.defects],
        "scoring_summary": scoring_summary(evaluation.score),
    }


def evaluation_of(slot: Slot, summary: Mapping[str, Any]) -> Evaluation:
    scores = summary["scoring_summary"]
    score = scores and Score(*(comparison_of(scores[name]) for name in ("recommendation", "root_recommendation")))
    return Evaluation(
        slot,
        **{name: summary[name] for name in PLAIN},
        results=summary["results_sha256"],
        baseline=summary["baseline_sha256"],
        defects=tuple(summary["defects"]),
        score=score,
    )
