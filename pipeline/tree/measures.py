"""What the gate looks at, check by check: numbers, what they must be, and the smallest change that would do.

Whether a check was passed is what the gate says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pipeline.tree.gate import COMPLETED, Evaluation
from pipeline.tree.results import told
from pipeline.tree.scoring import HIGHER, MIXED, RISK_REGRESSED, SIGN, Comparison, Detail, Rules


class Measured(NamedTuple):
    """Of a check, besides whether it was passed."""

    what: str
    number: float | None = None
    threshold: float | None = None
    change: float | None = None
    needs: str = ""


# A check beside those of the gate: its name, whether it was passed, and its numbers.
Line = tuple[str, bool, Measured]


def _rows(e: Evaluation, _: Rules) -> Measured | None:
    if not e.results or not e.baseline or e.status != COMPLETED:
        return None
    missing = e.rows_expected - e.rows_used
    lacking = f"{missing} more" if missing > 0 else ""
    bad = len(e.defects)
    what = f"{e.rows_used} of {e.rows_expected} rows are good" + (f": {told(e.defects)}" if bad else "")
    return Measured(what, bad, 0, -bad, lacking or f"{bad} fewer defects")


def _rows_used(e: Evaluation, _: Rules) -> Measured | None:
    if not e.rows_expected:
        return None
    change = e.rows_expected - e.rows_used
    return Measured(f"{e.rows_used} rows were used", e.rows_used, e.rows_expected, change, f"{change} more")


def _primary(e: Evaluation, rules: Rules) -> Measured | None:
    if e.score is None:
        return None
    delta = e.score.parent.primary_delta
    what = f"{rules.primary} is {_better(delta)} than the parent's"
    return Measured(what, delta, 0.0, -delta, _moved(rules, rules.primary, -delta))


def guards(found: Comparison, rules: Rules) -> Iterator[Line]:
    """They veto exploring; a mixed grade passes the gate all the same."""
    for detail in (each for each in found.metrics if each.guard):
        least = -rules.constants.guard_drop
        passed = f"{RISK_REGRESSED}:{detail.name}" not in found.reasons
        what = f"{detail.name} changed by {detail.relative:+.4g} of its baseline; {least:+.4g} is allowed"
        needs = _moved(rules, detail.name, _lacking(detail, least))
        yield f"guard {detail.name}", passed, Measured(what, detail.relative, least, least - detail.relative, needs)


def _lacking(detail: Detail, least: float) -> float:
    """In units of the metric; from a baseline of zero every loss is infinitely large."""
    return (least - detail.relative) * abs(detail.baseline) if detail.baseline else -detail.delta


def _recommended(e: Evaluation, rules: Rules) -> Measured | None:
    if e.score is None:
        return None
    found, c = e.score.parent, rules.constants
    if found.evidence is not None:
        return Measured(f"{found.evidence['verdict']}: {', '.join(found.reasons)}", needs="what failed above")
    assert found.score is not None  # only a verdict by blocks is without one
    what = f"{found.grade}, score {found.score:+.6g}: from {c.mixed:g} on it is {MIXED}, from {c.explore:g} on explored"
    ways = [*_ways(found, rules)]
    least = min((change for change, _ in ways if change is not None), default=None)
    threshold = found.score + least if least is not None else c.explore if found.should_explore else c.mixed
    return Measured(what, found.score, threshold, least, "; or ".join(words for _, words in ways))


def _ways(found: Comparison, rules: Rules) -> Iterator[tuple[float | None, str]]:
    """Each change that alone would have been enough: of the score, or of something else."""
    assert found.score is not None
    c, total = rules.constants, found.score
    blocks = [guard.removeprefix(f"{RISK_REGRESSED}:") for guard in found.reasons if guard.startswith(RISK_REGRESSED)]
    signal = total >= c.explore or found.better >= max(c.least_better, found.worse + c.lead)
    marks = [c.mixed] if c.mixed < c.promising else []
    marks += [c.explore] if not blocks else []
    if above := [mark for mark in marks if mark > total]:
        yield min(above) - total, f"a score of {min(above):g}: {min(above) - total:+.6g}"
    if blocks and (signal or not above):
        also = "" if signal else f", and a score of {c.explore:g}"
        yield None, f"no loss of {', '.join(blocks)} beyond what is allowed{also}"
    more = max(c.least_better, found.worse + c.lead) - found.better
    if not blocks and 0 < more <= len(found.metrics) - found.better - found.worse:
        yield None, f"{more} of the metrics that are the same better"


def _approved(e: Evaluation) -> Measured | None:
    if e.approved:
        return Measured("the code was approved, or nobody was to review it")
    unapproved = "the code was not approved"
    return Measured(unapproved, needs="an approval, or `proceed_on_max_review_rounds`") if e.commit else None


def _named(sha: str) -> Measured | None:
    return Measured(sha[:10]) if sha else None


# What each check of the gate looks at; None: nothing is known of it but whether it was passed.
MEASURES: dict[str, Callable[[Evaluation, Rules], Measured | None]] = {
    "completed": lambda e, _: Measured(f"{e.status}: {e.why}" if e.why else e.status),
    "commit": lambda e, _: _named(e.commit),
    "approved": lambda e, _: _approved(e),
    "results": lambda e, _: _named(e.results),
    "baseline": lambda e, _: _named(e.baseline),
    "rows": _rows,
    "rows_used": _rows_used,
    "primary": _primary,
    "recommended": _recommended,
}


def _better(delta: float) -> str:
    return f"{abs(delta):.6g} {'worse' if delta < 0 else 'better'}" if delta else "no different"


def _moved(rules: Rules, name: str, change: float) -> str:
    """`change`: more is better."""
    better = next(metric.better for metric in rules.metrics if metric.name == name)
    higher = (SIGN[better] == SIGN[HIGHER]) == (change > 0)
    return f"{name} {abs(change):.6g} {'higher' if higher else 'lower'}"
