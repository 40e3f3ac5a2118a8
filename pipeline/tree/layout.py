"""Where each record of a search is, below runs/<run>/: its path follows from its position alone."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.tree.slots import Place, Slot


class Layout(NamedTuple):
    """Paths from the project's folder on."""

    run: str

    def of_run(self, name: str) -> str:
        return f"runs/{self.run}/{name}"

    def of_depth(self, depth: int, name: str) -> str:
        return f"runs/{self.run}/depths/{depth}/{name}"

    def of_node(self, place: Place, name: str) -> str:
        return f"runs/{self.run}/nodes/{place}/{name}"

    def of_eval(self, slot: Slot, name: str) -> str:
        return f"runs/{self.run}/eval/{slot}/{name}"

    def of_holdout(self, where: Place | Slot, name: str) -> str:
        return f"runs/{self.run}/{HELD}/{where}/{name}"

    def csv(self, where: Place | Slot) -> str:
        return f"runs/{self.run}/artifacts/{where}.csv"

    def idea(self, slot: Slot, suffix: str) -> str:
        """`suffix`: md is the text, json what it cost, patch the recorded change, where there is one."""
        return f"runs/{self.run}/node_ideas/{slot.place}/idea_{slot.idea:03}.{suffix}"


# Of a run's folder: what is made of all its records.
MANIFEST, EVENTS = "manifest.json", "events.jsonl"
HELD, OPENINGS, VERDICT = "holdout", "holdout.jsonl", "holdout.json"
SUMMARY, VALIDATION = "TREE_SUMMARY.md", "VALIDATION_REPORT.md"
CALIBRATED = "calibrate"  # what `coppice calibrate` has measured
# Folders of worktrees.
NODES = "wt"
CANDIDATES = "cand"
BY_HAND = "hand"
