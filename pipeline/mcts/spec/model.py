"""Records of a `kind: mcts` spec, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.lean.model import LeanKeys
from pipeline.mcts.search.agents import Delay, Interventions, ReservationRules
from pipeline.mcts.search.distributed import TeamRules
from pipeline.mcts.search.journal import REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.search.records import SearchRules
from pipeline.spec_fields import StorePlace

# By the key of the spec, the field of the record.
STEERING_FIELDS = {key: key for key in ("agents", "inflight", "virtual_loss", "depth_bias", "path_bias")} | {
    "reservation": "counting",
    "history_cache": "refresh",
}
BLOCK_FIELDS = {key: key for key in ("fraction", "duration", "seed", "unfreeze_after", "unfreeze_prob")} | {
    "immovable_fraction": "immovable"
}
DELAY_FIELDS = {key: key for key in Delay._fields}


class Scenario(NamedTuple):
    """One way to run every search.  A centralized one has no steering; `explicit_keys`: those that the spec has.

    Where no seed is given for what is in the way of agents, it is that of the search."""

    name: str
    mode: str
    steering: ReservationRules | None = None
    interventions: Interventions = Interventions()
    time: str = VIRTUAL_TIME
    explicit_keys: Mapping[str, Any] = {}

    def rules(self, rules: SearchRules, seed: int) -> SearchRules | TeamRules:
        if self.steering is None:
            return rules
        block, delay, reroute = self.interventions
        if block.fraction and "block.seed" not in self.explicit_keys:
            block = block._replace(seed=seed)
        if delay.prob and "delay.seed" not in self.explicit_keys:
            delay = delay._replace(seed=seed)
        return TeamRules(rules, self.steering, Interventions(block, delay, reroute))


class GuideNames(NamedTuple):
    """Names of priors and rewards; `as_of`: a word for when the ledger was read for the priors."""

    priors: str = "moves"
    rewards: str = "printed"
    as_of: str = ""


class MctsSpec(NamedTuple):
    """`goals`: ids of the bank's rows, in its order or as they are listed.  `sources`: files that decided them."""

    name: str
    line: int
    bank: str
    goals: tuple[str, ...]
    lean: LeanKeys
    seeds: tuple[int, ...]
    rules: SearchRules
    guides: GuideNames
    scenarios: tuple[Scenario, ...]
    ledger: str
    store: StorePlace | None
    sources: Mapping[str, int]

    @property
    def rooms(self) -> dict[str, int]:
        """A search in real time has all processes of the Lean, so that it is alone."""
        runs_alone = any(scenario.time == REAL_TIME for scenario in self.scenarios)
        return {"lean": 1 if runs_alone else self.lean.processes}

    @property
    def at_once(self) -> int:
        return self.lean.processes

    @property
    def refusal(self) -> str:
        return ""
