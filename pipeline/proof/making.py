"""Workers of strategies, each imported when it is asked for.

A module in `workers` has `CODE`, raised when what the worker does changes, and `bound(lean)`, which makes one; where it
knows families of moves, `bound(lean, options)` does, with those to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from pipeline.edge.lean.model import Lean
from pipeline.proof.attempting import Worker
from pipeline.proof.settings import Way
from pipeline.proof.workers.search import Options


def code(way: Way) -> str:
    """What decides an attempt, besides goal, budget and Lean."""
    return " ".join([str(_module(way.worker).CODE), *way.families])


def made(strategies: Iterable[str], params: Mapping[str, Any], lean: Lean) -> dict[str, Worker]:
    """By strategy; `params` are those of the target."""
    ways = {name: Way(**way) for name, way in params.get("ways", {}).items()}
    return {name: _made(ways.get(name, Way(name)), lean) for name in strategies}


def _made(way: Way, lean: Lean) -> Worker:
    options = [Options(families=frozenset(way.families))] if way.families else []
    worker: Worker = _module(way.worker).bound(lean, *options)
    return worker


def _module(worker: str) -> Any:
    return import_module(f"pipeline.proof.workers.{worker}")
