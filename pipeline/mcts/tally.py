"""What a search came to, folded from its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.mcts.trace import NO_EXPANSION


class Tally:
    """`calls` are those that were answered; `idle`: iterations whose agent had nothing to do."""

    def __init__(self) -> None:
        self.reasons = Counter[str]()
        self.iterations = self.calls = self.idle = 0
        self.tree: Mapping[str, Any] = {}
        self.solved_at: int | None = None

    def hear(self, told: Mapping[str, Any]) -> None:
        self.reasons[told["reason"]] += 1
        self.iterations = max(self.iterations, told["iteration"])
        self.calls += len(told["attempts"])
        self.idle += told["reason"] == NO_EXPANSION and not told["attempts"]
        self.tree = told["tree"]
        if self.solved_at is None and self.tree["solved"]:
            self.solved_at = self.iterations

    def as_record(self, spent: int) -> dict[str, Any]:
        """A proof took all calls that were spent: none is begun when it is there."""
        tree = {name: self.tree.get(name, 0) for name in ("nodes", "expansions", "max_depth", "aborted")}
        counted = {"iterations": self.iterations, "calls": spent, "idle": self.idle}
        reasons = dict(sorted(self.reasons.items()))
        to_proof = None if self.solved_at is None else {"iterations": self.solved_at, "calls": spent}
        return {**tree, **counted, "reasons": reasons, "to_proof": to_proof}
