"""What follows from the evidence on one idea: promoted, rejected, indecisive or undecidable, and why."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.trust.evidence import DEGENERATE, IDENTICAL, STOPPED, Evidence

PROMOTED = "promoted"
REJECTED = "rejected"  # a gain worth having is excluded
INDECISIVE = "indecisive"  # it might be one
UNDECIDABLE = "undecidable"  # these blocks could hardly have told

FEWEST_BLOCKS = 5  # with fewer, no error rate was ever shown to hold

GAIN = "gain"
TOO_FEW_BLOCKS = "too_few_blocks"
SAME_AS_BASELINE = "identical"
NO_NOISE = "degenerate"
STOPPED_EARLY = "stopped_early"
NO_GAIN = "no_gain_worth_having"
TOO_SMALL = "below_smallest_effect"
CHANCE = "could_be_chance"


class Verdict(NamedTuple):
    verdict: str
    reasons: tuple[str, ...]


def verdict(evidence: Evidence, alpha: float, smallest_effect: float = 0.0) -> Verdict:
    """`smallest_effect`: a gain below it is not worth having; 0 if any is."""
    if evidence.standing == IDENTICAL:
        return Verdict(REJECTED, (SAME_AS_BASELINE,))
    if evidence.standing == STOPPED:
        return Verdict(REJECTED, (STOPPED_EARLY,))
    if evidence.blocks < FEWEST_BLOCKS:
        return Verdict(UNDECIDABLE, (TOO_FEW_BLOCKS,))
    if evidence.standing == DEGENERATE:
        return _degenerate(evidence, smallest_effect)
    return _tested(evidence, alpha, smallest_effect)


def _degenerate(evidence: Evidence, smallest_effect: float) -> Verdict:
    """A gain that is the same in every block may be real, or blocks that repeat nothing: no test can tell.  A loss
    is refused either way."""
    if _excluded(evidence.mean, smallest_effect):
        return Verdict(REJECTED, (NO_NOISE, NO_GAIN))
    return Verdict(UNDECIDABLE, (NO_NOISE,))


def _tested(evidence: Evidence, alpha: float, smallest_effect: float) -> Verdict:
    significant = evidence.p <= alpha
    large = evidence.mean >= smallest_effect and evidence.mean > 0
    if significant and large:
        return Verdict(PROMOTED, (GAIN,))
    if _excluded(evidence.upper, smallest_effect):
        return Verdict(REJECTED, (NO_GAIN,))
    reasons = (*(() if significant else (CHANCE,)), *(() if large else (TOO_SMALL,)))
    if 0 < smallest_effect < evidence.detectable:
        return Verdict(UNDECIDABLE, (TOO_FEW_BLOCKS, *reasons))
    return Verdict(INDECISIVE, reasons)


def _excluded(most: float, smallest_effect: float) -> bool:
    return most < smallest_effect if smallest_effect > 0 else most <= 0
