"""Blocks and delays: which goals may not be worked at just now.  They touch what is scheduled, never the tree.

Chances are drawn for a goal by its key and names, so that a scenario hits the same goals in whatever order a search
comes to them, and changing one chance changes no other draw."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from pipeline.mcts.draws import draw
from pipeline.mcts.nodes import Node


class Block(NamedTuple):
    """A `fraction` of goals is blocked when first come to, for `duration` iterations, for good if that is below 0.

    Each hit on a blocked goal may thaw it for those that come later: the `unfreeze_after`th does (0: none), any with
    `unfreeze_prob`.  `immovable` is the fraction of blocked goals that no hit thaws."""

    fraction: float = 0.0
    duration: int = -1
    seed: int = 0
    immovable: float = 0.0
    unfreeze_after: int = 0
    unfreeze_prob: float = 0.0


class Delay(NamedTuple):
    """Coming to a goal delays it with `prob`, for `duration` iterations.  Coming to it meanwhile draws again."""

    prob: float = 0.0
    duration: int = 0
    seed: int = 0


class Interventions(NamedTuple):
    """`reroute`: how many other goals an iteration may turn to when it finds one blocked."""

    block: Block = Block()
    delay: Delay = Delay()
    reroute: int = 0


@dataclass
class Frozen:
    until: float
    immovable: bool
    hits: int = 0


class Gate:
    """What stands in the way at a goal, as the trace tells it; None where there is nothing."""

    def __init__(self, rules: Interventions) -> None:
        self.rules = rules
        self._frozen: dict[int, Frozen | None] = {}
        self._delayed: dict[int, int] = {}

    def blocked(self, node: Node, iteration: int) -> dict[str, Any] | None:
        if not self.rules.block.fraction:
            return None
        if node.number not in self._frozen:
            self._frozen[node.number] = self._decide(node, iteration)
        frozen = self._frozen[node.number]
        if frozen is None or iteration > frozen.until:
            return None
        frozen.hits += 1
        thawed = not frozen.immovable and self._thaws(node, iteration, frozen.hits)
        if thawed:
            self._frozen[node.number] = None
        until = None if frozen.until == inf else frozen.until
        told = {"node": node.number, "until": until, "hits": frozen.hits}
        return told | {"immovable": frozen.immovable, "thawed": thawed}

    def _decide(self, node: Node, iteration: int) -> Frozen | None:
        rule = self.rules.block
        if draw(rule.seed, "block", node.key, node.names) >= rule.fraction:
            return None
        immovable = draw(rule.seed, "immovable", node.key, node.names) < rule.immovable
        return Frozen(inf if rule.duration < 0 else iteration + rule.duration, immovable)

    def _thaws(self, node: Node, iteration: int, hits: int) -> bool:
        rule = self.rules.block
        if rule.unfreeze_after and hits >= rule.unfreeze_after:
            return True
        return draw(rule.seed, "unfreeze", node.key, node.names, iteration) < rule.unfreeze_prob

    def delayed(self, node: Node, iteration: int) -> dict[str, Any] | None:
        rule = self.rules.delay
        drawn = bool(rule.prob) and draw(rule.seed, "delay", node.key, node.names, iteration) < rule.prob
        if drawn:
            self._delayed[node.number] = iteration + rule.duration
        until = self._delayed.get(node.number, -1)
        if not drawn and iteration > until:
            return None
        return {"node": node.number, "until": until, "drawn": drawn}
