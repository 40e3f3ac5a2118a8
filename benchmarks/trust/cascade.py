"""Cascades: all ideas are measured on the first blocks, the best go on to all of them."""

from __future__ import annotations

from benchmarks.trust.errors import CHUNK, any_of, joined
from benchmarks.trust.judged import ALPHA, DRAWS, column, first, promoted, weighed
from benchmarks.trust.shares import Share, seeded, share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array, World
from pipeline.trust.rule import weigh

IDEAS, KEEP = 7, 3
MOST = 5.0


def _grid(quick: bool) -> list[Params]:
    stops = ((20, 8),) if quick else ((10, 5), (20, 5), (20, 8), (50, 10), (50, 20))
    return [{"B": b, "first": n, "effect": effect} for effect in (0, 3) for b, n in stops]


def _measure(depths: int, B: int, first: int, effect: float) -> Found:  # noqa: N803 they are the columns' names
    rng, world = seeded("cascade", B, first, effect), World(IDEAS, B)
    parts: dict[str, list[Share]] = {}
    for start in range(0, depths, CHUNK):
        deltas, error = world.depths(rng, min(CHUNK, depths - start))
        blocks = deltas.mean(axis=2)
        blocks[:, 0] += effect * error[:, :1]
        for name, found in _ways(blocks, first, effect).items():
            parts.setdefault(name, []).append(found)
    cost = (IDEAS * first + KEEP * (B - first)) / (IDEAS * B)
    return {name: joined(found) for name, found in parts.items()} | {"cost, %": round(100 * cost, 1)}


def _ways(blocks: Array, stop: int, effect: float) -> dict[str, Share]:
    kept = blocks[:, :, :stop].mean(axis=2).argsort(axis=1)[:, -KEEP:]
    full = weighed(blocks)
    ended = [_weighed(depth, keep, stop, i) for i, (depth, keep) in enumerate(zip(blocks, kept, strict=True))]
    alone = weighed(blocks[[[i] for i in range(len(blocks))], kept])
    if not effect:
        return {
            "coppice": any_of(promoted(ended)),
            "survivors alone": any_of(promoted(alone)),
            "no cascade": any_of(promoted(full)),
        }
    return {
        "coppice": share(first(column(ended, "t"), promoted(ended))),
        "no cascade": share(first(column(full, "t"), promoted(full))),
    }


def _weighed(depth: Array, kept: Array, stop: int, seed: int):  # type: ignore[no-untyped-def]
    deltas = [blocks.tolist() if k in kept else blocks[:stop].tolist() for k, blocks in enumerate(depth)]
    return weigh(deltas, alpha=ALPHA, seed=seed, draws=DRAWS)


def _promises(params: Params, found: Found) -> list[Promise]:
    if params["effect"]:
        return []
    return [Promise(found["coppice"].within(MOST), f"false promotions at most {MOST} %: {found['coppice']}")]


CASCADE = Study(f"Cascade, {KEEP} of {IDEAS} go on: % of depths with a (right) promotion", _grid, _measure, _promises)
