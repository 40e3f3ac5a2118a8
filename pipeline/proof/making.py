"""Workers by the names of their strategies, each imported when it is asked for.

A module in `workers` has `CODE`, raised when what the worker does changes, and `bound(lean)`, which makes one."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pipeline.edge.lean.model import Lean
from pipeline.proof.attempting import Worker


def code(strategy: str) -> str:
    return str(_module(strategy).CODE)


def made(strategy: str, lean: Lean) -> Worker:
    worker: Worker = _module(strategy).bound(lean)
    return worker


def _module(strategy: str) -> Any:
    return import_module(f"pipeline.proof.workers.{strategy}")
