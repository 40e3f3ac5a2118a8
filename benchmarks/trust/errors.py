"""False promotions: ideas without any effect, of which none should be promoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.trust.judged import RULES, column, promoted, weighed
from benchmarks.trust.shares import Share, seeded, share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array, World

CHUNK = 250  # depths at once
KEPT = 5.0
KEPT_SKEWED = 5.5
RHOS = (0.2, 0.4)


def chunks(world: World, depths: int, *name: object) -> Iterator[tuple[Array, Array]]:
    rng = seeded(world, *name)
    for start in range(0, depths, CHUNK):
        yield world.depths(rng, min(CHUNK, depths - start))


def any_of(wins: Array) -> Share:
    return share(wins.any(axis=1))


def joined(parts: Sequence[Share]) -> Share:
    return Share(sum(part.hits for part in parts), sum(part.of for part in parts))


def _grid(quick: bool) -> list[Params]:
    noises, blocks = (
        ("normal", "left") if quick else ("normal", "t3", "crisis", "left"),
        (5, 20) if quick else (5, 10, 20, 50),
    )
    return [{"noise": noise, "K": k, "B": b} for noise in noises for k in (1, 7, 20) for b in blocks]


def _measure(depths: int, noise: str, K: int, B: int) -> Found:  # noqa: N803 they are the columns' names
    found: dict[str, list[Share]] = {name: [] for name in RULES}
    for deltas, _ in chunks(World(K, B, noise), depths, "errors"):
        for name, rule in RULES.items():
            found[name].append(any_of(rule(deltas)))
    return {name: joined(parts) for name, parts in found.items()}


def _promises(params: Params, found: Found) -> list[Promise]:
    skewed = params["noise"] == "left"
    if skewed and params["K"] < 7:
        return []  # the figure is stated, nothing is promised of it
    most = KEPT_SKEWED if skewed else KEPT
    return [Promise(found["coppice"].within(most), f"false promotions at most {most} %: {found['coppice']}")]


ERRORS = Study("False promotions, % of depths with any, blocks in no order (95 % interval)", _grid, _measure, _promises)


def _series_grid(quick: bool) -> list[Params]:
    noises = ("normal",) if quick else ("normal", "left")
    cells = [
        {"noise": n, "rho": rho, "K": k}
        for n in noises
        for rho in RHOS
        for k in ((7,) if quick or n == "left" else (1, 7, 20))
    ]
    return [cell | {"B": b} for cell in cells for b in (10, 20, 50)]


def _series(depths: int, noise: str, rho: float, K: int, B: int) -> Found:  # noqa: N803
    found: dict[str, list[Share]] = {}
    for deltas, _ in chunks(World(K, B, noise, rho), depths, "series"):
        blocks = deltas.mean(axis=2)
        estimated = weighed(blocks, ordered=True)
        for name, wins in {
            "coppice": promoted(estimated),
            "rho given": promoted(weighed(blocks, ordered=True, rho=rho)),
            "without skew guard": _unguarded(estimated),
            "taken for unordered": promoted(weighed(blocks)),
        }.items():
            found.setdefault(name, []).append(any_of(wins))
    return {name: joined(parts) for name, parts in found.items()}


def _unguarded(found: Sequence) -> Array:  # type: ignore[type-arg]
    critical = np.array([[depth.critical] for depth in found])
    return column(found, "mean") >= critical * column(found, "se")


def _series_promises(params: Params, found: Found) -> list[Promise]:
    if params["noise"] != "normal" or params["B"] < 20:
        return []
    return [Promise(found["coppice"].within(KEPT), f"false promotions at most {KEPT} %: {found['coppice']}")]


SERIES = Study(
    "False promotions, % of depths with any, blocks in time order with AR(1) noise",
    _series_grid,
    _series,
    _series_promises,
)
