"""Workers of strategies, each imported when it is asked for.

A module in `workers` has `CODE`, raised when what the worker does changes, and `bound(lean)`, which makes one; where it
knows families of moves, `bound(lean, options)` does, with those to use and what each counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from random import Random
from typing import Any

from pipeline.edge.lean.model import Lean
from pipeline.goals.model import Goal
from pipeline.proof.attempting import Worker
from pipeline.proof.model import Result
from pipeline.proof.settings import Way
from pipeline.proof.workers.search import Options
from pipeline.tactics.moves import EVERY, FAMILIES


def code(way: Way) -> str:
    """What decides an attempt, besides goal, budget and Lean."""
    return " ".join([str(_module(way.worker).CODE), *way.families])


def made(strategies: Iterable[str], params: Mapping[str, Any], lean: Lean, seed: str = "") -> dict[str, Worker]:
    """By strategy; `params` are those of the target.  With another seed, moves are tried in another order."""
    ways = {name: Way(**way) for name, way in params.get("ways", {}).items()}
    return {name: _made(ways.get(name, Way(name)), lean, seed) for name in strategies}


def sampled(by_sample: Mapping[int, Mapping[str, Worker]], samples: Mapping[str, int]) -> dict[str, Worker]:
    """Workers that do what those of the goal's sample do; `samples` has its number."""

    def of(strategy: str) -> Worker:
        async def run(goal: Goal, timeout: float) -> Result:
            return await by_sample[samples[goal.id]][strategy](goal, timeout)

        return run

    return {strategy: of(strategy) for strategy in by_sample[0]}


def _made(way: Way, lean: Lean, seed: str) -> Worker:
    options = [options_of(way, seed)] if way.families or seed else []
    worker: Worker = _module(way.worker).bound(lean, *options)
    return worker


def options_of(way: Way, seed: str) -> Options:
    """Seeds make families up to twice as dear or as cheap: a search by general moves has no other chance in it."""
    rng = Random(seed)
    weights = {family: 2 ** rng.uniform(-1, 1) for family in FAMILIES} if seed else {}
    return Options(frozenset(way.families) or EVERY, weights)


def _module(worker: str) -> Any:
    return import_module(f"pipeline.proof.workers.{worker}")
