"""Power: one idea has an effect, and it should be promoted and be the best.

The oracle knows each idea's standard error and the correlation between them, and so the exact distribution of the best
of them by chance: no rule that must find these out can do better."""

from __future__ import annotations

from benchmarks.trust.errors import chunks, joined
from benchmarks.trust.judged import column, first, oracle_critical, promoted, weighed
from benchmarks.trust.shares import Share, share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import SPREAD, World

ENOUGH = 85.0  # percent of the oracle's power; missed when the whole interval is below
FROM = {1: 10, 7: 20, 20: 50}  # blocks, by the number of ideas
PROMISED = 3


def _grid(quick: bool) -> list[Params]:
    blocks, effects = ((10, 20, 50), (3,)) if quick else ((5, 10, 20, 50), (1, 2, 3, 4))
    cells = [{"spread": SPREAD, "K": k, "B": b, "effect": e} for k in FROM for b in blocks for e in effects]
    return cells + [{"spread": 1.0, "K": k, "B": b, "effect": PROMISED} for k in FROM for b in blocks]


def _measure(depths: int, spread: float, K: int, B: int, effect: float) -> Found:  # noqa: N803
    ours, oracles = [], []
    for deltas, error in chunks(World(K, B, spread=spread), depths, "power"):
        blocks = deltas.mean(axis=2)
        blocks[:, 0] += effect * error[:, :1]
        found = weighed(blocks)
        ours.append(share(first(column(found, "t"), promoted(found))))
        t = blocks.mean(axis=2) / error
        oracles.append(share(first(t, t >= oracle_critical(K))))
    one, other = joined(ours), joined(oracles)
    return {"coppice": one, "oracle": other, "% of the oracle": Share(min(one.hits, other.hits), other.hits)}


def _promises(params: Params, found: Found) -> list[Promise]:
    if params["effect"] != PROMISED or params["B"] < FROM[params["K"]]:
        return []
    ratio = found["% of the oracle"]
    reached = ratio.interval[1] >= ENOUGH
    return [Promise(reached, f"at {PROMISED} SE at least {ENOUGH:.0f} % of the oracle's power: {ratio}")]


POWER = Study(
    "Power, % of depths: the planted idea is promoted and the best, by its effect in SE", _grid, _measure, _promises
)
