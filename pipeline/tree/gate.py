"""The gate: what a candidate must have shown against its parent before it is ranked at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pipeline.tree.results import told
from pipeline.tree.scoring import MIXED, PRIMARY_REGRESSED, Comparison, Score
from pipeline.tree.slots import Slot
from pipeline.trust.verdicts import STOPPED_EARLY

COMPLETED, FAILED, SKIPPED = "completed", "failed", "skipped"
ENDED = (COMPLETED, FAILED, SKIPPED)


class Evaluation(NamedTuple):
    """What became of a slot, as far as promotion needs it.  What does not exist is empty.

    `why`: of one that failed or was skipped.  `tree`: the hash of the candidate's files.  `results`, `baseline`: what
    names the candidate's CSV and the parent's.  `defects`: of the rows of both, in words."""

    slot: Slot
    status: str
    why: str = ""
    commit: str = ""
    tree: str = ""
    approved: bool = False
    results: str = ""
    baseline: str = ""
    defects: tuple[str, ...] = ()
    rows_used: int = 0
    rows_expected: int = 0
    score: Score | None = None


class Failure(NamedTuple):
    """The first check of the gate that an evaluation did not pass."""

    check: str
    why: str


def _completed(e: Evaluation) -> str:
    return "" if e.status == COMPLETED else f"{e.status}: {e.why or 'no reason given'}"


def _rows_used(e: Evaluation) -> str:
    used = {e.rows_used, *((e.score.parent.rows_used,) if e.score else ())}
    if e.rows_expected > 0 and used == {e.rows_expected}:
        return ""
    return f"{' and '.join(map(str, sorted(used)))} rows were used, {e.rows_expected} are expected"


def _primary(e: Evaluation) -> str:
    """Written so that a NaN does not pass."""
    if e.score is None:
        return "there is no score"
    parent = e.score.parent
    if PRIMARY_REGRESSED in parent.reasons:
        return f"{PRIMARY_REGRESSED} against the parent by {parent.primary_delta:.6g}"
    good = parent.primary_delta >= 0
    return "" if good else f"the primary metric is worse than the parent's: {parent.primary_delta:+.6g}"


def _recommended(e: Evaluation) -> str:
    if e.score is None or e.score.parent.should_explore or e.score.parent.grade == MIXED:
        return ""
    return _unexplored(e.score.parent)


def _unexplored(parent: Comparison) -> str:
    found, reasons = parent.evidence, ", ".join(parent.reasons)
    if found is None:
        return f"{parent.grade}, not to be explored: {reasons}"
    if STOPPED_EARLY in parent.reasons:
        return f"{found['verdict']}: stopped after the first {found['blocks']} blocks, where others were better"
    return f"{found['verdict']}: {reasons} (p {found['p']:.3g}, alpha {found['alpha']:.3g}, {found['blocks']} blocks)"


# The gate, in order: the first that has something to say decides.
CHECKS: tuple[tuple[str, Callable[[Evaluation], str]], ...] = (
    ("completed", _completed),
    ("commit", lambda e: "" if e.commit else "there is no commit of the candidate"),
    ("approved", lambda e: "" if e.approved else "the code was not approved"),
    ("results", lambda e: "" if e.results else "the candidate has no results CSV"),
    ("baseline", lambda e: "" if e.baseline else "the parent has no results CSV to compare with"),
    ("rows", lambda e: told(e.defects)),
    ("rows_used", _rows_used),
    ("primary", _primary),
    ("recommended", _recommended),
)


def gate(evaluation: Evaluation) -> Failure | None:
    """None: it may be promoted."""
    return next((Failure(name, why) for name, check in CHECKS if (why := check(evaluation))), None)


def comparable(evaluation: Evaluation) -> bool:
    """Whether its score is all that is lacking: it is one of those among which luck may have chosen."""
    return not any(check(evaluation) for name, check in CHECKS if name not in ("primary", "recommended"))
