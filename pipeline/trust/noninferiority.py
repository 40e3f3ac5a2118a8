"""Guards: metrics that may get worse by less than a margin, as far as the blocks can tell.

A guard passes when its one-sided 95 % bound is above -margin, and fails when the bound on the other side is below it.
All guards must pass, so they need no correction for their number: each can only refuse.  Leaning to losses and
autocorrelation are estimated from all ideas of the depth, which share their blocks: one alone hardly shows them."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from typing import NamedTuple

from pipeline.trust import series
from pipeline.trust.distributions import t_quantile
from pipeline.trust.evidence import CONFIDENCE, FEWEST_BLOCKS
from pipeline.trust.series import common_skewness, has_no_noise, round_significant, skew_guarded, undo_skew_guard

PASSED, FAILED, UNDECIDED = "passed", "failed", "undecided"
MARGIN_ERRORS = 3  # standard errors in a good margin: a harmless change then passes about nine times in ten


class GuardResult(NamedTuple):
    """The result of a guard.  `limit`: the loss that is excluded, to compare with -margin.  `tight`: the margin is too
    small for the data, a harmless change would often be undecided."""

    mean: float
    se: float
    t: float
    df: int
    limit: float
    verdict: str
    tight: bool


def judge_guard(
    ideas: Sequence[Sequence[float]],
    margin: float,
    *,
    ordered: bool = False,
    rho: float | None = None,
    repeats: Sequence[int] | None = None,
) -> tuple[GuardResult, ...]:
    """Judge a guard of all ideas of a depth.  `ideas`: their differences per block, equally many, more is better;
    `margin`: the loss that is allowed, 0 or more."""
    if len({*map(len, ideas)}) > 1 or not all(ideas) or margin < 0:
        raise ValueError("ideas must have equally many blocks, one at least, and the margin must not be below 0")
    noisy = [blocks for blocks in ideas if not has_no_noise(blocks, repeats)]
    used, lean = series.rho_to_use(noisy, ordered, rho), common_skewness(noisy)
    return tuple(
        _steady_guard(blocks, margin)
        if has_no_noise(blocks, repeats)
        else _noisy_guard(blocks, margin, used, lean, repeats)
        for blocks in ideas
    )


def _noisy_guard(
    blocks: Sequence[float], margin: float, rho: float, lean: float, repeats: Sequence[int] | None
) -> GuardResult:
    count, mean = len(blocks), fsum(blocks) / len(blocks)
    error, df, worth = _mean_error(blocks, rho, repeats)
    reach = t_quantile(CONFIDENCE, df)
    limit, most = mean - undo_skew_guard(reach, lean, worth) * error, mean + reach * error
    verdict = PASSED if limit > -margin else FAILED if most < -margin else UNDECIDED
    verdict = verdict if count >= FEWEST_BLOCKS else UNDECIDED
    t = skew_guarded((mean + margin) / error, lean, worth)
    mean, error, t, limit = map(round_significant, (mean, error, t, limit))
    return GuardResult(mean, error, t, df, limit, verdict, margin < MARGIN_ERRORS * error)


def mean_reach(
    blocks: Sequence[float],
    alpha: float,
    *,
    ordered: bool = False,
    rho: float | None = None,
    repeats: Sequence[int] | None = None,
) -> float | None:
    """The distance that the truth may have from the mean on either side, with 1 - alpha; None where blocks cannot
    tell."""
    if len(blocks) < FEWEST_BLOCKS or has_no_noise(blocks, repeats):
        return None
    error, df, _ = _mean_error(blocks, series.rho_to_use([blocks], ordered, rho), repeats)
    return t_quantile(1 - alpha / 2, df) * error


def _mean_error(blocks: Sequence[float], rho: float, repeats: Sequence[int] | None) -> tuple[float, int, int]:
    """The standard error of a mean, its degrees of freedom, and how many independent blocks it is worth."""
    count, mean = len(blocks), fsum(blocks) / len(blocks)
    worth, df = count, count - 1
    # with autocorrelation from coordinates that vary as the mean does
    noise = series.coordinates(blocks, rho)[1:] if rho else [block - mean for block in blocks]
    if repeats:
        noise = series.repeat_coordinates(series.by_repeat(blocks, repeats))[1:]
        worth, df = count // len({*repeats}), len(noise)
    return sqrt(fsum(y * y for y in noise) / df / worth), df, worth


def _steady_guard(blocks: Sequence[float], margin: float) -> GuardResult:
    """The result for the same difference in every block, without noise."""
    mean = round_significant(fsum(blocks) / len(blocks))
    verdict = PASSED if mean >= -margin else FAILED
    verdict = verdict if len(blocks) >= FEWEST_BLOCKS else UNDECIDED
    return GuardResult(mean, 0.0, 0.0, len(blocks) - 1, mean, verdict, False)
