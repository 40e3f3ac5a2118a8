"""Global beam search: gate on the parent, rank against the root, promote, and decide whether to stop.

The gate is GATE_CHECKS in order: the first one that fails decides.  Evaluations that pass are ranked over all parents
together; ties go to the earlier slot; two evaluations with the same files take one place.  A depth is promoted only
when all of its evaluations have ended.  STOPS are asked afterwards, in order: what was paid for is always ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from math import inf, isfinite
from typing import NamedTuple

from pipeline.tree.rules.budget import STOP_REASONS
from pipeline.tree.rules.positions import EvalSlot, NodePlace, places_of
from pipeline.tree.rules.scoring import MIXED, PRIMARY_REGRESSED, Score, round_relative
from pipeline.tree.rules.sheet import defects_text
from pipeline.trust.evidence import STOPPED_EARLY
from pipeline.trust.series import round_significant

COMPLETED, FAILED, SKIPPED = "completed", "failed", "skipped"
FINAL_STATUSES = (COMPLETED, FAILED, SKIPPED)


class Evaluation(NamedTuple):
    """The result of a slot, as far as promotion needs it; fields of what does not exist are empty.

    `why`: the reason it failed or was skipped.  `tree`: the hash of the candidate's files.  `results`, `baseline`:
    hashes of the candidate's CSV and of the parent's.  `defects`: of the rows of both, in words."""

    slot: EvalSlot
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


Failure = tuple[str, str]  # the check that an evaluation did not pass, and why


def _check_rows_used(e: Evaluation) -> str:
    used = {e.rows_used, *((e.score.parent.rows_used,) if e.score else ())}
    if e.rows_expected > 0 and used == {e.rows_expected}:
        return ""
    return f"{' and '.join(map(str, sorted(used)))} rows were used, {e.rows_expected} are expected"


def _check_primary(e: Evaluation) -> str:
    """Check the primary metric; written so that a NaN does not pass."""
    if e.score is None:
        return "there is no score"
    parent = e.score.parent
    if PRIMARY_REGRESSED in parent.reasons:
        return f"{PRIMARY_REGRESSED} against the parent by {parent.primary_delta:.6g}"
    good = parent.primary_delta >= 0
    return "" if good else f"the primary metric is worse than the parent's: {parent.primary_delta:+.6g}"


def _check_recommended(e: Evaluation) -> str:
    if e.score is None or e.score.parent.should_explore or e.score.parent.grade == MIXED:
        return ""
    parent, evidence, reasons = e.score.parent, e.score.parent.evidence, ", ".join(e.score.parent.reasons)
    if evidence is None:
        return f"{parent.grade}, not to be explored: {reasons}"
    verdict, blocks = evidence["verdict"], evidence["blocks"]
    if STOPPED_EARLY in parent.reasons:
        return f"{verdict}: stopped after the first {blocks} blocks, where others were better"
    return f"{verdict}: {reasons} (p {evidence['p']:.3g}, alpha {evidence['alpha']:.3g}, {blocks} blocks)"


# The gate, in order: the first check that gives a reason decides.
GATE_CHECKS: tuple[tuple[str, Callable[[Evaluation], str]], ...] = (
    ("completed", lambda e: "" if e.status == COMPLETED else f"{e.status}: {e.why or 'no reason given'}"),
    ("commit", lambda e: "" if e.commit else "there is no commit of the candidate"),
    ("approved", lambda e: "" if e.approved else "the code was not approved"),
    ("results", lambda e: "" if e.results else "the candidate has no results CSV"),
    ("baseline", lambda e: "" if e.baseline else "the parent has no results CSV to compare with"),
    ("rows", lambda e: defects_text(e.defects)),
    ("rows_used", _check_rows_used),
    ("primary", _check_primary),
    ("recommended", _check_recommended),
)


def first_failed_check(evaluation: Evaluation) -> Failure | None:
    """The first check of the gate that an evaluation fails; None when it may be promoted."""
    return next(((name, why) for name, check in GATE_CHECKS if (why := check(evaluation))), None)


def is_comparable(evaluation: Evaluation) -> bool:
    """True when only its score can fail: it is one of those among which luck may choose."""
    return not any(check(evaluation) for name, check in GATE_CHECKS if name not in ("primary", "recommended"))


# Checks among all that passed the gate.
SAME_CODE, RANK = "same_code", "rank"
STRICT_FAILURE, MAX_DEPTH, EMPTY_FRONTIER = "strict_depth_failure", "max_depth_reached", "empty_frontier"


class BeamDecision(NamedTuple):
    """The decision on one evaluation: where it goes, or the check that it failed; `why` is never empty."""

    slot: EvalSlot
    promoted_to: NodePlace | None
    failed: str
    why: str


class BeamPlace(NamedTuple):
    """A place of the next beam, and the evaluation it comes from; None when it stays empty."""

    place: NodePlace
    source: EvalSlot | None
    commit: str
    why: str


class Promotion(NamedTuple):
    """The next beam, best first, and a decision on every evaluation in slot order."""

    slots: tuple[BeamPlace, ...]
    decisions: tuple[BeamDecision, ...]

    @property
    def empty(self) -> bool:
        return all(slot.source is None for slot in self.slots)


def rank_key(evaluation: Evaluation) -> tuple[float, float]:
    """Key to rank by, more is better: the root score, else the root's primary delta; ties by that delta."""
    root = evaluation.score.root if evaluation.score else None
    return rank_numbers(root.score, root.primary_delta) if root else (-inf, -inf)


def rank_numbers(score: float | None, primary_delta: float) -> tuple[float, float]:
    """The numbers to rank by, of a comparison with the root; what is not finite comes last."""
    delta = round_significant(primary_delta) if isfinite(primary_delta) else -inf
    return (round_relative(score) if score is not None and isfinite(score) else delta), delta


def promote(evaluations: Iterable[Evaluation], beam_width: int, slots: Sequence[EvalSlot]) -> Promotion:
    """Promote the best evaluations of a depth; all of its `slots` must have ended, or some would be lost for good."""
    ended = _complete_depth(evaluations, slots)
    failures: dict[EvalSlot, Failure] = {e.slot: failure for e in ended if (failure := first_failed_check(e))}
    # ties go to the earlier slot: sorting is stable
    passed = sorted((e for e in ended if e.slot not in failures), key=rank_key, reverse=True)
    by_code: dict[str, Evaluation] = {}
    for e in passed:
        if (first := by_code.setdefault(code_identity(e), e)) is not e:
            failures[e.slot] = SAME_CODE, f"the same code as {first.slot}, which comes before it"
    best = [*by_code.values()]
    for number, e in enumerate(best[beam_width:], beam_width + 1):
        last = f"the last of them has {_rank_text(best[beam_width - 1])}"
        failures[e.slot] = RANK, f"{_rank_text(e)} is number {number}, the beam has {beam_width}; {last}"
    none = f"{len(best)} of {len(ended)} evaluations passed the gate with code of their own"
    beam = tuple(
        BeamPlace(place, e.slot, e.commit, _rank_text(e)) if e else BeamPlace(place, None, "", none)
        for place, e in zip(places_of(ended[0].slot.depth + 1, beam_width), chain(best, repeat(None)), strict=False)
    )
    decisions = {e.source: BeamDecision(e.source, e.place, "", e.why) for e in beam if e.source}
    decisions |= {slot: BeamDecision(slot, None, *failure) for slot, failure in failures.items()}
    return Promotion(beam, tuple(decisions[e.slot] for e in ended))


def _complete_depth(evaluations: Iterable[Evaluation], slots: Sequence[EvalSlot]) -> list[Evaluation]:
    """Evaluations in slot order, one for each slot of one depth, all of them ended."""
    found = sorted(evaluations, key=lambda e: e.slot)
    if [e.slot for e in found] != sorted(slots) or not slots:
        different = {e.slot for e in found} ^ {*slots}
        raise ValueError(f"not one evaluation for each slot: {', '.join(map(str, sorted(different))) or 'doubles'}")
    if waiting := [str(e.slot) for e in found if e.status not in FINAL_STATUSES]:
        raise ValueError(f"promotion waits for all of a depth; {', '.join(waiting)} have not ended")
    if len({slot.depth for slot in slots}) > 1:
        raise ValueError("promotion is for one depth at a time")
    return found


def code_identity(evaluation: Evaluation) -> str:
    """The identity of an evaluation's code: its files.  Two ideas applied in either order may give the same."""
    return evaluation.tree or evaluation.commit


def _rank_text(evaluation: Evaluation) -> str:
    score, delta = rank_key(evaluation)
    return f"rank {score:+.6g} (primary {delta:+.6g}) against the root"


class DepthProgress(NamedTuple):
    """The facts that decide, after a depth has been promoted, whether there is another one.

    `cut`: parts of the budget that left slots of this depth empty.  `short`: those too small for one more."""

    depth: int
    max_depth: int
    empty: bool
    failed: bool = False
    strict: bool = False
    stop_on_empty: bool = True
    cut: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


# In this order: an empty frontier after a depth that the budget cut is the budget's doing.
STOPS: tuple[Callable[[DepthProgress], str], ...] = (
    lambda p: STRICT_FAILURE if p.strict and p.failed else "",
    lambda p: MAX_DEPTH if p.depth + 1 >= p.max_depth else "",
    lambda p: next((STOP_REASONS[name] for name in STOP_REASONS if name in p.cut), ""),
    lambda p: EMPTY_FRONTIER if p.empty and p.stop_on_empty else "",
    lambda p: next((STOP_REASONS[name] for name in STOP_REASONS if name in p.short), ""),
)


def stop_reason(progress: DepthProgress) -> str:
    """The reason to stop after a promoted depth; empty to go on."""
    return next(filter(None, (stop(progress) for stop in STOPS)), "")


def told_stop(reason: str | None, cut: Sequence[str]) -> str | None:
    """The recorded reason to stop as people are told it: the budget's, where it left out slots of the last depth.

    The record of a last depth says MAX_DEPTH whatever was cut, and is not decided anew for another word."""
    return next((STOP_REASONS[name] for name in STOP_REASONS if name in cut), reason) if reason == MAX_DEPTH else reason
