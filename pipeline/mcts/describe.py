"""Targets of an mcts run in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.recipe import describe_params
from pipeline.core.text import plural
from pipeline.mcts.plan import COMPARE


def describe(target: Target) -> Mapping[str, Sequence[str]]:
    """Describe a target: a word, and the lines beside it."""
    return describe_params(target, left_out="cells")


def outlook(targets: Sequence[Target]) -> Sequence[str]:
    """The most that all searches may cost, in words."""
    params = next(target.params for target in targets if target.stage == COMPARE)
    cells, scenarios = params["cells"], len(params["scenarios"])
    goals, seeds = len({goal for _, _, goal in cells}), len({seed for _, seed, _ in cells})
    each = params["budget"]["calls"]
    of = f"{plural(goals, 'goal')} × {plural(scenarios, 'scenario')} × {plural(seeds, 'seed')}"
    count = f"{len(cells)} search{'es' if len(cells) > 1 else ''}"
    return [f"{count} ({of}), at most {each} calls of Lean each, {each * len(cells):,} in all"]
