"""Evidence on ideas: the records of the rule, the verdict that follows, and the alpha that a depth may spend.

A verdict: promoted, rejected, indecisive or undecidable, and why.

The alpha of a run is its chance to promote by mistake.  Each of D depths gets alpha/D.  A depth that filled all its
places, or had nothing to compare, hands all of its level on to the next: it left no room for noise to be promoted.  One
with a place left does not, even if it promoted something: the other ideas had their chance at that level, and would
have it once more in every later depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

TESTED = "tested"
IDENTICAL = "identical"  # no block differs from the baseline
DEGENERATE = "degenerate"  # every block differs by the same: there is no noise to compare that with
STOPPED = "stopped"  # measured on the first blocks only


class Evidence(NamedTuple):
    """One idea against its baseline, by its differences per block; more is better.  Without a test, the mean is of the
    blocks there are, `p` is 1, and `se` and the numbers from it are 0."""

    standing: str
    blocks: int  # that were measured
    mean: float
    se: float  # of the mean, moderated by the other ideas' noise
    t: float  # mean / se, made smaller where the blocks lean to losses
    p: float  # of a gain that large in any idea of the depth, if none had an effect
    lower: float  # simultaneous over the ideas, at the level alpha: above 0 exactly when p <= alpha
    upper: float  # one-sided 95 % for this idea alone
    estimate: float  # the mean, shrunk: the best of several owes a part to luck
    detectable: float  # the effect that would be found with a probability of about 80 %


class JointTest(NamedTuple):
    """The joint test of a depth's ideas.  `critical`: the t at which p reaches alpha."""

    ideas: tuple[Evidence, ...]
    blocks: int
    alpha: float
    critical: float
    df: float  # degrees of freedom of a standard error: blocks - 1 + prior_df; of repeats, folds - 1 in each
    prior_df: float  # how many blocks the common noise of all ideas counts for; 0: each by its own
    prior_sd: float  # the common noise of a block
    rho: float  # the autocorrelation of ordered blocks that was used
    draws: int


PROMOTED = "promoted"
REJECTED = "rejected"  # a gain worth having is excluded
INDECISIVE = "indecisive"  # it might be one
UNDECIDABLE = "undecidable"  # these blocks could hardly have told

FEWEST_BLOCKS = 5  # with fewer, no error rate was ever shown to hold
POWER = 0.8  # the chance to find a detectable effect
CONFIDENCE = 0.95  # that of a one-sided bound

# Reasons; a standing that decides is one, too.
GAIN = "gain"
TOO_FEW_BLOCKS = "too_few_blocks"
STOPPED_EARLY = "stopped_early"
NO_GAIN = "no_gain_worth_having"
TOO_SMALL = "below_smallest_effect"
CHANCE = "could_be_chance"


class Verdict(NamedTuple):
    """A verdict on an idea, and its reasons."""

    verdict: str
    reasons: tuple[str, ...]


def verdict(evidence: Evidence, alpha: float, smallest_effect: float = 0.0) -> Verdict:
    """The verdict on an idea; `smallest_effect`: a gain below it is not worth having, 0 if any is."""
    if evidence.standing == IDENTICAL:
        return Verdict(REJECTED, (IDENTICAL,))
    if evidence.standing == STOPPED:
        return Verdict(REJECTED, (STOPPED_EARLY,))
    if evidence.blocks < FEWEST_BLOCKS:
        return Verdict(UNDECIDABLE, (TOO_FEW_BLOCKS,))
    if evidence.standing == DEGENERATE:
        # a gain may be real, or the blocks repeat nothing: no test can tell; a loss is refused either way
        if _is_excluded(evidence.mean, smallest_effect):
            return Verdict(REJECTED, (DEGENERATE, NO_GAIN))
        return Verdict(UNDECIDABLE, (DEGENERATE,))
    significant = evidence.p <= alpha
    large = evidence.mean >= smallest_effect and evidence.mean > 0
    if significant and large:
        return Verdict(PROMOTED, (GAIN,))
    if _is_excluded(evidence.upper, smallest_effect):
        return Verdict(REJECTED, (NO_GAIN,))
    reasons = (*(() if significant else (CHANCE,)), *(() if large else (TOO_SMALL,)))
    if 0 < smallest_effect < evidence.detectable:
        return Verdict(UNDECIDABLE, (TOO_FEW_BLOCKS, *reasons))
    return Verdict(INDECISIVE, reasons)


def _is_excluded(most: float, smallest_effect: float) -> bool:
    return most < smallest_effect if smallest_effect > 0 else most <= 0


def depth_alpha(alpha: float, depths: int, freed: Sequence[bool]) -> float:
    """The alpha of a depth; `freed`: for each depth before, whether it filled its places or had nothing to compare."""
    if not 0 <= len(freed) < depths:
        raise ValueError(f"there are {depths} depths, and {len(freed)} of them are over")
    share = carried = alpha / depths
    for free in freed:
        carried = share + (carried if free else 0.0)
    return carried
