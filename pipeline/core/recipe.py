"""What, besides the contents it reads, decides what a target writes; and the key both give together."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from pipeline.core.graph import Target

# X.Y: a patch release changes no result, and a store is shared by machines that differ in it.
PYTHON = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"


def recipe(target: Target, code: str) -> dict[str, Any]:
    """`code` stands for the code of the stage; position (names, paths of outputs) is deliberately absent."""
    ports = [[port, len(group)] for port, group in target.reads]
    written = [[port, len(group)] for port, group in target.writes]
    return {"stage": code, "python": PYTHON, "reads": ports, "writes": written, **target.params}


def key(recipe: Mapping[str, Any], contents: Iterable[str]) -> str:
    """The identity of a result: same recipe, same contents in the same order."""
    return sha256(f"{compact(recipe)}\n{' '.join(contents)}".encode()).hexdigest()


def compact(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
