"""The Lean that a stage asks, as the spec names it: processes that are guarded, and end with the build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.edge.lean import process
from pipeline.edge.lean.model import Lean
from pipeline.edge.lean.pool import Pool
from pipeline.edge.lean.toolchain import ready
from pipeline.edge.process import Processes

REPL = Path(process.__file__).with_name("Repl.lean")


def opened(starter: Processes, keys: Mapping[str, Any]) -> Lean:
    """Nothing is started before it is asked something."""
    return BACKENDS[keys["backend"]](starter, keys)


def described(params: Mapping[str, Any]) -> Mapping[str, str]:
    """What is recorded of it."""
    toolchain = ready()
    return {"backend": params["backend"], "version": toolchain.version}


def _wasm(starter: Processes, keys: Mapping[str, Any]) -> Lean:
    toolchain = ready()
    return Pool(toolchain.command(REPL), starter, keys["processes"], toolchain.version)


BACKENDS: Mapping[str, Callable[[Processes, Mapping[str, Any]], Lean]] = {"wasm": _wasm}
