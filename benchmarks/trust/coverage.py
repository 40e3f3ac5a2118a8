"""Bounds and estimates: how often the truth is within them, and by how much the promoted look better than they are."""

from __future__ import annotations

import numpy as np

from benchmarks.trust.errors import chunks
from benchmarks.trust.judged import ALPHA, column, weighed
from benchmarks.trust.shares import share
from benchmarks.trust.study import Found, Params, Study
from benchmarks.trust.worlds import World


def _grid(quick: bool) -> list[Params]:
    noises = ("normal",) if quick else ("normal", "t3", "left")
    blocks = (10, 50) if quick else (5, 10, 20, 50)
    return [{"noise": noise, "rho": 0.0, "K": k, "B": b} for noise in noises for k in (1, 7) for b in blocks] + [
        {"noise": "normal", "rho": 0.4, "K": k, "B": b} for k in (1, 7) for b in blocks if b >= 10
    ]


def _measure(depths: int, noise: str, rho: float, K: int, B: int) -> Found:  # noqa: N803 they are the columns' names
    """Ideas have effects of N(0, 2 SE)."""
    parts: dict[str, list] = {}  # type: ignore[type-arg]
    rng = np.random.default_rng(7)
    for deltas, error in chunks(World(K, B, noise, rho), depths, "coverage"):
        truth = 2 * error * rng.standard_normal(error.shape)
        found = weighed(deltas.mean(axis=2) + truth[:, :, None], ordered=rho > 0)
        names = ("mean", "lower", "upper", "estimate", "p")
        for name, values in {"truth": truth, "error": error, **{n: column(found, n) for n in names}}.items():
            parts.setdefault(name, []).append(values)
    return _columns(**{name: np.concatenate(values) for name, values in parts.items()})


def _columns(truth, error, mean, lower, upper, estimate, p) -> Found:  # type: ignore[no-untyped-def]
    best = (p == p.min(axis=1, keepdims=True)) & (p <= ALPHA)
    bias = {"mean": mean, "estimate": estimate}
    return {
        "all lower bounds hold": share((lower <= truth).all(axis=1)),
        "upper bound holds": share((upper >= truth).ravel()),
        "lower bound holds, once promoted": share((lower <= truth)[best]),
        **{f"bias of the {n}, once promoted, SE": float(((x - truth) / error)[best].mean()) for n, x in bias.items()},
    }


COVERAGE = Study("Bounds: % that hold (lower: for all ideas of a depth at once), effects N(0, 2 SE)", _grid, _measure)
