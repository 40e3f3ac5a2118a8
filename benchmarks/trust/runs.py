"""False promotions over a whole run of D depths, by how alpha is spread over it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.trust.judged import ALPHA, column, weighed
from benchmarks.trust.shares import Share, seeded, share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array, World
from pipeline.trust.evidence import depth_alpha

DEPTHS, IDEAS, BLOCKS = 5, 7, 20
MOST = 5.5


class Real(NamedTuple):
    """How many ideas of a depth have an effect, with which probability, and how large."""

    ideas: int
    chance: float
    effect: float


TRUTHS = {
    "nothing": Real(0, 0, 0),
    "in half the depths one idea of 3 SE": Real(1, 0.5, 3),
    "one idea of 3 SE": Real(1, 1, 3),
    "one idea of 5 SE": Real(1, 1, 5),
    "two ideas of 3 SE": Real(2, 1, 3),
}
WALLETS = (".05 each", ".05/D", "handed on when something is promoted", "coppice")


def _grid(quick: bool) -> list[Params]:
    truths = ("nothing", "one idea of 5 SE") if quick else TRUTHS
    return [{"real": truth, "beam": beam} for truth in truths for beam in (1, 2)]


def _measure(depths: int, real: str, beam: int) -> Found:
    p, planted = _run(depths, TRUTHS[real], real)
    found: Found = {}
    for wallet in WALLETS:
        wins = _wins(p, wallet, beam)
        found[wallet] = share((wins & ~planted).any(axis=(1, 2)))
        if planted.any():
            found[f"found: {wallet}"] = Share(int((wins & planted).sum()), int(planted.sum()))
    return found


def _run(runs: int, truth: Real, name: str) -> tuple[Array, Array]:
    """[run, depth, idea]: p, and which have an effect."""
    rng, world = seeded("runs", name), World(IDEAS, BLOCKS)
    deltas, error = world.depths(rng, runs * DEPTHS)
    planted = (np.arange(IDEAS) < truth.ideas) & (rng.random(runs * DEPTHS) < truth.chance)[:, None]
    blocks = deltas.mean(axis=2) + (planted * truth.effect * error)[:, :, None]
    shape = (runs, DEPTHS, IDEAS)
    return column(weighed(blocks), "p").reshape(shape), planted.reshape(shape)


def _wins(p: Array, wallet: str, beam: int) -> Array:
    """The best of a depth, as many as it has places, that reach its level."""
    wins = np.zeros(p.shape, bool)
    for run in range(len(p)):
        freed: list[bool] = []
        for depth in range(DEPTHS):
            best = np.argsort(p[run, depth], kind="stable")[:beam]
            taken = best[p[run, depth, best] <= _level(wallet, freed)]
            wins[run, depth, taken] = True
            freed.append(len(taken) >= (1 if "something" in wallet else beam))
    return wins


def _level(wallet: str, freed: list[bool]) -> float:
    if wallet == ".05 each":
        return ALPHA
    return depth_alpha(ALPHA, DEPTHS, [False] * len(freed) if wallet == ".05/D" else freed)


def _promises(_params: Params, found: Found) -> list[Promise]:
    return [Promise(found["coppice"].within(MOST), f"at most {MOST} % of runs: {found['coppice']}")]


RUNS = Study(
    f"False promotions, % of runs of {DEPTHS} depths with any ({IDEAS} ideas, {BLOCKS} blocks)",
    _grid,
    _measure,
    _promises,
)
