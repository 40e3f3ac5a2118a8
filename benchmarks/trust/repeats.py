"""Folds of real fits as blocks: one split, or a split that is repeated, as by `RepeatedKFold`.

In each depth there are new data: rows of 12 features that count alike, and a target with as much noise again.  A state
of the code is a linear fit by half of the features, the baseline's and each idea's drawn at random, so that no idea is
better: it is fitted to all rows but those of a fold, and the block is what it loses on these.  With `effect` the first
idea keeps the baseline's features and has so many more.

Beside the product: the same folds taken for independent blocks, which is what is done where nobody says so; the mean of
each fold over the repeats; and the corrected variance of Nadeau and Bengio, by which the squares of what differs count
for (1/blocks + 1/(folds - 1)) * folds times as much."""

from __future__ import annotations

import numpy as np

from benchmarks.trust.errors import any_of, joined
from benchmarks.trust.judged import ALPHA, column, first, promoted, weighed
from benchmarks.trust.shares import Share, seeded, share
from benchmarks.trust.study import Found, Params, Promise, Study
from benchmarks.trust.worlds import Array
from pipeline.trust.distributions import t_cdf
from pipeline.trust.evidence import JointTest

FEATURES, USED, RIDGE = 12, 6, 0.1
MOST = 5.5
CHUNK = 250


def _grid(quick: bool) -> list[Params]:
    splits = ((20, 1), (5, 4)) if quick else ((10, 1), (20, 1), (5, 4), (10, 5))
    ideas = (7,) if quick else (1, 7)
    losses = ("squares",) if quick else ("squares", "mistakes")
    cells: list[Params] = [
        {"loss": loss, "rows": 300, "folds": folds, "repeats": repeats, "K": k, "effect": 0}
        for loss in losses
        for folds, repeats in splits
        for k in ideas
    ]
    return cells + [cell | {"effect": 3} for cell in cells if cell["loss"] == "squares" and cell["K"] == 7]


def _measure(depths: int, loss: str, rows: int, folds: int, repeats: int, K: int, effect: int) -> Found:  # noqa: N803 they are the columns' names
    rng, parts = seeded("repeats", loss, rows, folds, repeats, K, effect), dict[str, list[Share]]()
    for start in range(0, depths, CHUNK):
        count = min(CHUNK, depths - start)
        blocks = np.array([_depth(rng, loss, rows, folds, repeats, K) for _ in range(count)])
        blocks[:, 0] += effect * np.square(blocks.mean(axis=2)).mean() ** 0.5
        for name, found in _ways(blocks, folds, repeats, start, effect).items():
            parts.setdefault(name, []).append(found)
    return {name: joined(found) for name, found in parts.items()}


def _ways(blocks: Array, folds: int, repeats: int, start: int, effect: int) -> dict[str, Share]:
    of_repeat = [n // folds for n in range(folds * repeats)] if repeats > 1 else None
    told = weighed(blocks, start, repeats=of_repeat)
    if repeats == 1:
        return {"coppice": _share(told, effect)}
    by_fold = blocks.reshape(*blocks.shape[:2], repeats, folds).mean(axis=2)
    return {
        "coppice": _share(told, effect),
        "taken for independent": _share(weighed(blocks, start), effect),
        "means of folds": _share(weighed(by_fold, start), effect),
        "Nadeau and Bengio": _corrected(blocks, folds, effect),
    }


def _share(found: list[JointTest], effect: int) -> Share:
    return share(first(column(found, "t"), promoted(found))) if effect else any_of(promoted(found))


def _corrected(blocks: Array, folds: int, effect: int) -> Share:
    """The corrected t with Bonferroni's alpha."""
    count, ideas = blocks.shape[2], blocks.shape[1]
    error = blocks.std(axis=2, ddof=1) * (1 / count + 1 / (folds - 1)) ** 0.5
    t = blocks.mean(axis=2) / np.maximum(error, 1e-300)
    wins = np.array([[1 - t_cdf(float(x), count - 1) <= ALPHA / ideas for x in row] for row in t])
    return share(first(t, wins)) if effect else any_of(wins)


def _depth(rng: np.random.Generator, loss: str, rows: int, folds: int, repeats: int, ideas: int) -> Array:
    """[idea, block]: how much less each idea loses than the baseline."""
    x = rng.standard_normal((rows, FEATURES))
    y = x.sum(axis=1) / FEATURES**0.5 + rng.standard_normal(rows)
    y = np.sign(y) if loss == "mistakes" else y
    held = _folds(rng, rows, folds, repeats)
    used = [rng.permutation(FEATURES)[:USED] for _ in range(ideas + 1)]
    losses = np.array([_losses(x[:, own], y, held, loss) for own in used])
    return losses[:1] - losses[1:]


def _folds(rng: np.random.Generator, rows: int, folds: int, repeats: int) -> Array:
    """[block, row]: whether the row is of that fold; repeat by repeat."""
    places = np.arange(rows) % folds
    return np.concatenate([places[rng.permutation(rows)] == np.arange(folds)[:, None] for _ in range(repeats)])


def _losses(x: Array, y: Array, held: Array, loss: str) -> Array:
    """The mean loss on each fold of a fit to all other rows."""
    squares = x[:, :, None] * x[:, None, :]
    left = squares.sum(axis=0) - np.einsum("bn,nij->bij", held, squares) + RIDGE * np.eye(x.shape[1])
    right = (x * y[:, None]).sum(axis=0) - held @ (x * y[:, None])
    told = np.linalg.solve(left, right[:, :, None])[:, :, 0] @ x.T
    lost = (told - y) ** 2 if loss == "squares" else (np.sign(told) != y).astype(float)
    return np.asarray((lost * held).sum(axis=1) / held.sum(axis=1))


def _promises(params: Params, found: Found) -> list[Promise]:
    if params["effect"]:
        return []
    return [Promise(found["coppice"].within(MOST), f"false promotions at most {MOST} %: {found['coppice']}")]


REPEATS = Study(
    "Folds of fits as blocks: % of depths with a (right) promotion; `effect`: of the first idea, in SE",
    _grid,
    _measure,
    _promises,
)
