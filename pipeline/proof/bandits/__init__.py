"""Which strategy to try next on which goal: the rules there are, by the name a spec gives them."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.proof.bandits.contextual import Contextual
from pipeline.proof.bandits.discounted import Discounted
from pipeline.proof.bandits.model import Bandit
from pipeline.proof.bandits.seed import Seed
from pipeline.proof.bandits.ucb1 import Ucb1

BANDITS: dict[str, Callable[[], Bandit]] = {
    "seed": Seed,
    "ucb1": Ucb1,
    "discounted": Discounted,
    "contextual": Contextual,
}
