"""What was found out about ideas: the records that the rule writes and a verdict reads."""

from __future__ import annotations

from typing import NamedTuple

TESTED = "tested"
IDENTICAL = "identical"  # no block differs from the baseline
DEGENERATE = "degenerate"  # every block differs by the same: there is no noise to hold that against
STOPPED = "stopped"  # measured on the first blocks only


class Evidence(NamedTuple):
    """One idea against its baseline, by its differences per block; more is better.  Of one that was not tested the
    mean is of the blocks there are, `p` is 1, and `se` and what follows from it are 0."""

    standing: str
    blocks: int  # that were measured
    mean: float
    se: float  # of the mean, moderated by the other ideas' noise
    t: float  # mean / se, made smaller where the blocks lean to losses
    p: float  # of a gain that large in any idea of the depth, if none had an effect
    lower: float  # simultaneous over the ideas, at the level alpha: above 0 exactly when p <= alpha
    upper: float  # one-sided 95 % for this idea alone
    estimate: float  # the mean, shrunk by what the best of several owes to luck
    detectable: float  # the effect that would be found with a probability of about 80 %


class Weighed(NamedTuple):
    """The joint test of a depth's ideas.  `critical`: the t at which p reaches alpha."""

    ideas: tuple[Evidence, ...]
    blocks: int
    alpha: float
    critical: float
    df: float  # degrees of freedom of a standard error: blocks - 1 + prior_df
    prior_df: float  # how many blocks the common noise of all ideas counts for; 0: each by its own
    prior_sd: float  # the common noise of a block
    rho: float  # autocorrelation of ordered blocks that was reckoned with
    draws: int
