"""What a target of a tree run does, in words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.tree.outlook import outlook

__all__ = ["outlook", "shown"]


def shown(target: Target) -> Mapping[str, Sequence[str]]:
    """A word, and the lines beside it."""
    params = target.params
    words = {"stage": [target.stage]}
    return words | {name: [json.dumps(value, ensure_ascii=False)] for name, value in params.items() if name != "limits"}
