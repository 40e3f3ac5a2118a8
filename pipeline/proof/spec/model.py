"""Records of a `kind: proof` spec, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.lean.model import LeanKeys
from pipeline.spec_fields import StorePlace


class SearchSettings(NamedTuple):
    """Settings that decide which attempts are made; `timeout` is that of all of them together.

    `strategies`: the seconds that each has at the first level."""

    strategies: Mapping[str, float]
    bandit: str = "discounted"
    speculation: int = 3
    levels: int = 2
    level_factor: float = 4.0
    escalate_threshold: float = 0.6
    tactic_cache: bool = True
    timeout: float | None = None
    samples: int = 1
    seed: int = 0


class StrategyWorker(NamedTuple):
    """The worker of a strategy, and its families of moves.  None of them stands for all."""

    worker: str
    families: tuple[str, ...] = ()


class Pace(NamedTuple):
    """Settings of speed, which decide no attempt: attempts at once, and the load per CPU that slows starting down."""

    max_light: int = 8
    max_heavy: int = 2
    cpu_target: float | None = None


class ProofSpec(NamedTuple):
    """`given`: the keys that stand in the spec, which have not their defaults.

    `ways`: of strategies that are more than the worker of their name."""

    name: str
    line: int
    bank: str
    lean: LeanKeys
    search: SearchSettings
    pace: Pace
    profile: int | None
    pass_at: tuple[int, ...]
    ledger: str
    store: StorePlace | None
    explicit_keys: frozenset[str] = frozenset()
    strategy_workers: Mapping[str, StrategyWorker] = {}

    def worker_for(self, strategy: str) -> StrategyWorker:
        """One that the spec says nothing of is the worker of that name."""
        return self.strategy_workers.get(strategy, StrategyWorker(strategy))

    @property
    def rooms(self) -> dict[str, int]:
        return {}

    @property
    def at_once(self) -> int:
        return 1  # the search has its own rooms, for attempts

    @property
    def sources(self) -> Mapping[str, int]:
        return {}

    @property
    def refusal(self) -> str:
        return ""

    @property
    def engine(self) -> Mapping[str, Any]:
        return {}  # its sessions of Lean are on this machine
