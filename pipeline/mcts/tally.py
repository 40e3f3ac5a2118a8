"""What a search came to, folded from its trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.mcts.trace import ABORT


class Tally:
    """Of iterations and calls, those up to the proof are kept apart: what was under way then ends after it."""

    def __init__(self) -> None:
        self.reasons = Counter[str]()
        self.iterations = self.calls = 0
        self.tree: Mapping[str, Any] = {}
        self.to_proof: dict[str, int] | None = None

    def hear(self, told: Mapping[str, Any]) -> None:
        self.reasons[told["reason"]] += 1
        self.iterations = max(self.iterations, told["iteration"])
        self.calls += len(told["tactics"] if told["reason"] == ABORT else told["attempts"])
        self.tree = told["tree"]
        if self.to_proof is None and self.tree["solved"]:
            self.to_proof = {"iterations": self.iterations, "calls": self.calls}

    def as_record(self) -> dict[str, Any]:
        tree = {name: self.tree.get(name, 0) for name in ("nodes", "expansions", "max_depth", "aborted")}
        counted = {"iterations": self.iterations, "calls": self.calls, "reasons": dict(sorted(self.reasons.items()))}
        return {**tree, **counted, "to_proof": self.to_proof}
