"""The moderated rotation max-T: all ideas of a depth judged at once, by the differences of each to its baseline.

Blocks repeat a measurement; configs do not, and are reduced to one number a block before (`series.reduce_configs`).
Each idea has a t: its mean over a standard error that partly comes from the other ideas' noise.  Without effects the
direction of the mean among all directions in the space of blocks would be arbitrary: so p is how often a random
direction, the same for all ideas, gives any of them a t as large.  That keeps alpha for normal noise of any correlation
between ideas at any number of blocks; with one idea it is the t test.

Ideas that were stopped after the first blocks still count: each had its chance to win.  To test the survivors alone
would forget that they were picked for having done well.  The missing blocks of the others are filled with noise of
their own size; it is drawn anew for each, so that nothing is gained by stopping an idea."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import fsum, isfinite, sqrt
from typing import NamedTuple

from pipeline.trust import series
from pipeline.trust.distributions import GRID, cosines, max_t_values, portable_normals, round_to_grid, t_quantile
from pipeline.trust.evidence import CONFIDENCE, DEGENERATE, IDENTICAL, POWER, STOPPED, TESTED, Evidence, JointTest
from pipeline.trust.series import (
    Prior,
    common_skewness,
    has_no_noise,
    prior,
    round_significant,
    skew_guarded,
    undo_skew_guard,
)


def fill_stopped(ideas: Sequence[Sequence[float]], count: int, seed: int) -> list[Sequence[float]]:
    """Fill each idea up to `count` blocks.  Its noise depends on the number of its blocks and its place alone."""
    whole = [*ideas]
    for place, blocks in enumerate(ideas):
        if len(blocks) < count:
            mean = fsum(blocks) / len(blocks)
            size = sqrt(fsum((block - mean) ** 2 for block in blocks) / (len(blocks) - 1))
            noise = portable_normals(seed, f"filled/{place}", count - len(blocks))
            whole[place] = [*blocks, *(float(z) / GRID * size for z in noise)]
    return whole


TIE = 1e-9  # random t within this of an observed one count as reaching it

Blocks = Sequence[float]


class _Idea(NamedTuple):
    """A tested idea.  `rows`: its coordinates, the first is the mean times the root of the blocks that it is
    worth; `length`: their squares."""

    mean: float
    rows: Sequence[float]
    length: float


class _Noise(NamedTuple):
    """The common noise of the ideas.  `width`: how many coordinates there are; `worth`: how many independent blocks a
    mean is worth.  Both are the number of blocks, but where blocks repeat a split."""

    blocks: int
    width: int
    worth: int
    prior: Prior
    lean: float

    @property
    def df(self) -> float:
        return self.width - 1 + self.prior.df

    def error(self, idea: _Idea) -> float:
        """The standard error of a mean, from the rest of the squares and the common noise."""
        rest = max(0.0, idea.length - self.worth * idea.mean**2)
        return sqrt((rest + self.prior.squares(idea.length, self.width)) / self.df / self.worth)


class _Chance(NamedTuple):
    """The distribution by chance: the best t in each of the random directions, in order."""

    best: Sequence[float]
    alpha: float

    def p(self, t: float) -> float:
        below = bisect_left(self.best, t - TIE * max(1.0, abs(t)))
        return (1 + len(self.best) - below) / (len(self.best) + 1)

    @property
    def critical(self) -> float:
        """The smallest t with p <= alpha."""
        return self.best[len(self.best) - int(self.alpha * (len(self.best) + 1))]


def weigh(
    deltas: Sequence[Blocks],
    *,
    alpha: float,
    seed: int,
    ordered: bool = False,
    rho: float | None = None,
    repeats: Sequence[int] | None = None,
    draws: int,
    blocks: int | None = None,
) -> JointTest:
    """Judge all ideas of a depth.  `deltas`: the differences of each per block, more is better.  An idea with fewer
    blocks than the others, or than `blocks`, was stopped after the first of them; it counts among the ideas and cannot
    win.  `ordered`: blocks are in time order, with the autocorrelation `rho` or an estimated one.  `repeats`: blocks
    are folds of a split that is repeated; the repeat of each."""
    _check(deltas, alpha, draws)
    count = blocks or max(map(len, deltas))
    if repeats and (ordered or min(map(len, deltas)) < count):
        raise ValueError("repeats of a split are in no order of time, and each idea must be measured on all of them")
    standings = [_standing_of(blocks, count, repeats) for blocks in deltas]
    live = [k for k, blocks in enumerate(deltas) if not has_no_noise(blocks, repeats)]
    full = fill_stopped([deltas[k] for k in live], count, seed)
    whole = [deltas[k] for k in live if standings[k] == TESTED]
    used = series.rho_to_use(whole or full, ordered, rho)  # the noise that fills has no autocorrelation
    ideas = _ideas(full, used, repeats)
    noise = _noise(full, ideas, count, repeats)
    chance = _chance(ideas, noise, alpha, seed, draws)
    tested = {k: idea for k, idea in zip(live, ideas, strict=True) if standings[k] == TESTED}
    shrink = _shrink([idea.mean for idea in tested.values()], [*map(noise.error, tested.values())])
    evidence = tuple(
        _tested_evidence(tested[k], shrink, noise, chance) if k in tested else _untested_evidence(standing, deltas[k])
        for k, standing in enumerate(standings)
    )
    critical = round_significant(chance.critical) if ideas else 0.0
    sd = round_significant(sqrt(noise.prior.variance))
    return JointTest(evidence, count, alpha, critical, noise.df, noise.prior.df, sd, used, draws)


def _check(deltas: Sequence[Blocks], alpha: float, draws: int) -> None:
    if not deltas or not all(deltas):
        raise ValueError("there must be an idea, and a block of each")
    if not all(isfinite(x) for blocks in deltas for x in blocks):
        raise ValueError("differences must be finite numbers")
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha {alpha} is not above 0 and up to 0.5")
    if draws % 2 or alpha * (draws + 1) < 1:
        raise ValueError(f"{draws} draws: must be even, and at least 1/alpha - 1 = {1 / alpha - 1:g}")


def _standing_of(blocks: Blocks, count: int, repeats: Sequence[int] | None) -> str:
    if len(blocks) < count:
        return STOPPED
    if not any(blocks):
        return IDENTICAL
    return DEGENERATE if has_no_noise(blocks, repeats) else TESTED


def _noise(deltas: Sequence[Blocks], ideas: Sequence[_Idea], count: int, repeats: Sequence[int] | None) -> _Noise:
    width = len(ideas[0].rows) if ideas else count
    worth = count // len({*repeats}) if repeats else count
    return _Noise(count, width, worth, prior([idea.length for idea in ideas], width), common_skewness(deltas))


def _ideas(ideas: Sequence[Blocks], rho: float, repeats: Sequence[int] | None) -> list[_Idea]:
    """Ideas with their coordinates.  Blocks without order are sorted, so that p does not depend on the order of blocks
    or ideas even by the random directions; they are their own coordinates."""
    if rho:
        rows: list[Sequence[float]] = [series.coordinates(blocks, rho) for blocks in ideas]
    elif repeats and ideas:
        rows = _repeat_rows(ideas, repeats)
    else:
        rows = [*zip(*sorted(zip(*ideas, strict=True), key=sorted), strict=True)]
    pairs = zip(ideas, rows, strict=True)
    return [_Idea(fsum(blocks) / len(blocks), row, fsum(y * y for y in row)) for blocks, row in pairs]


def _repeat_rows(ideas: Sequence[Blocks], repeats: Sequence[int]) -> list[Sequence[float]]:
    """Coordinates of folds of repeats; folds are sorted within their repeat, and repeats too."""
    groups = [sorted(group, key=sorted) for group in series.by_repeat([*zip(*ideas, strict=True)], repeats)]
    groups.sort(key=lambda group: [sorted(fold) for fold in group])
    own = ([[fold[k] for fold in group] for group in groups] for k in range(len(ideas)))
    return [series.repeat_coordinates(each) for each in own]


def _chance(ideas: Sequence[_Idea], noise: _Noise, alpha: float, seed: int, draws: int) -> _Chance:
    if not ideas:
        return _Chance((), alpha)
    angles = cosines([round_to_grid(idea.rows, sqrt(idea.length)) for idea in ideas], seed, draws // 2)
    squares = [noise.prior.squares(idea.length, noise.width) / idea.length for idea in ideas]
    return _Chance(max_t_values(angles, squares, noise.df), alpha)


def _shrink(means: Sequence[float], errors: Sequence[float]) -> float:
    """The share of effect in a mean, over all ideas: the rest of their spread is error."""
    if not means:
        return 0.0
    luck = fsum(error**2 for error in errors) / len(errors)
    effect = max(0.0, fsum(mean**2 for mean in means) / len(means) - luck)
    return effect / (effect + luck)


def _tested_evidence(idea: _Idea, shrink: float, noise: _Noise, chance: _Chance) -> Evidence:
    error = noise.error(idea)
    t = round_significant(skew_guarded(idea.mean / error, noise.lean, noise.worth))
    reach = undo_skew_guard(chance.critical, noise.lean, noise.worth)
    numbers = (
        idea.mean,
        error,
        t,
        chance.p(t),
        idea.mean - reach * error,
        idea.mean + t_quantile(CONFIDENCE, noise.df) * error,
        idea.mean * shrink,
        (reach + t_quantile(POWER, noise.df)) * error,
    )
    return Evidence(TESTED, noise.blocks, *map(round_significant, numbers))


def _untested_evidence(standing: str, blocks: Blocks) -> Evidence:
    mean = round_significant(fsum(blocks) / len(blocks))
    return Evidence(standing, len(blocks), mean, 0.0, 0.0, 1.0, mean, mean, mean, 0.0)
