"""Comparing the best config of each side instead of the mean over configs: does the rule keep its promise then?

Two ways to make blocks of it: `chosen once`, the config that is best over all blocks, on each side; `in each block`,
the best config of that very block.  Configs may differ, by so many SE of their means, and an idea may change which of
them is good while it leaves their mean alone; its numbers may vary by half more than the parent's."""

from __future__ import annotations

import numpy as np

from benchmarks.trust.errors import CHUNK, any_of, joined
from benchmarks.trust.judged import promoted, weighed
from benchmarks.trust.shares import Share, seeded
from benchmarks.trust.study import Found, Params, Study
from benchmarks.trust.worlds import CONFIGS, Array

IDEAS = 7


def _grid(quick: bool) -> list[Params]:
    blocks = (20,) if quick else (10, 50)
    return [
        {"ideas' noise": noise, "configs differ, SE": spread, "B": b, "effect, SE": effect}
        for noise in ("as the parent's", "half again")
        for effect in (0, 3)
        for spread in (0, 2)
        for b in blocks
    ]


def _measure(depths: int, **params: object) -> Found:
    blocks, spread, effect = (
        int(str(params["B"])),
        float(str(params["configs differ, SE"])),
        float(str(params["effect, SE"])),
    )
    size = 1.5 if params["ideas' noise"] == "half again" else 1.0
    rng, parts = seeded("best", *params.values()), dict[str, list[Share]]()
    for start in range(0, depths, CHUNK):
        sides, count = ((1, 1.0), (IDEAS, size)), min(CHUNK, depths - start)
        parent, ideas = (_measured(rng, (count, k, CONFIGS, blocks), spread, s) for k, s in sides)
        ideas[:, 0] += effect * ((0.5 + 0.5 / CONFIGS) * (1 + size**2) / 2 / blocks) ** 0.5
        for name, way in {"mean": _mean, "chosen once": _once, "in each block": _each}.items():
            wins = promoted(weighed(way(ideas) - way(parent)))
            parts.setdefault(name, []).append(any_of(wins[:, :1] if effect else wins))
    return {name: joined(found) for name, found in parts.items()}


def _measured(rng: np.random.Generator, shape: tuple[int, ...], spread: float, size: float) -> Array:
    """[depth, idea, config, block].  A config's own level is drawn anew for each side."""
    depths, ideas, configs, blocks = shape
    levels = rng.standard_normal((depths, ideas, configs, 1)) * spread / (2 * blocks) ** 0.5
    levels -= levels.mean(axis=2, keepdims=True)
    noise = (rng.standard_normal((depths, ideas, 1, blocks)) + rng.standard_normal(shape)) / 2**0.5
    return levels + size * noise / 2**0.5


def _mean(x: Array) -> Array:
    return x.mean(axis=2)


def _once(x: Array) -> Array:
    best = x.mean(axis=3).argmax(axis=2)
    return np.take_along_axis(x, best[:, :, None, None], axis=2)[:, :, 0]


def _each(x: Array) -> Array:
    return x.max(axis=2)


BEST = Study("Best config instead of the mean: % of depths with a (right) promotion", _grid, _measure)
