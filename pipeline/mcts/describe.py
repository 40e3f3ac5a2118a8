"""Targets of an mcts run in words for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.recipe import LIMITS
from pipeline.core.text import plural
from pipeline.mcts.plan import COMPARE


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """A word, and the lines beside it."""
    words = {name: [_as_json(value)] for name, value in target.params.items() if name not in (LIMITS, "cells")}
    limits = {name: [_as_json(value)] for name, value in target.params.get(LIMITS, {}).items()}
    return {"stage": [target.stage], **words, **limits}


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def outlook(targets: Sequence[Target]) -> Sequence[str]:
    """The most that all searches may cost, in words."""
    params = next(target.params for target in targets if target.stage == COMPARE)
    cells, scenarios = params["cells"], len(params["scenarios"])
    goals, seeds = len({goal for _, _, goal in cells}), len({seed for _, seed, _ in cells})
    each = params["budget"]["calls"]
    of = f"{plural(goals, 'goal')} × {plural(scenarios, 'scenario')} × {plural(seeds, 'seed')}"
    count = f"{len(cells)} search{'es' if len(cells) > 1 else ''}"
    return [f"{count} ({of}), at most {each} calls of Lean each, {each * len(cells):,} in all"]
