"""The worker `reprover`: premises retrieved for a goal, tactics generated from both, tried in Lean."""

from __future__ import annotations

from pipeline.goals.model import Goal
from pipeline.proof.model import Result
from pipeline.proof.workers.lacking import Lacking

LACKING = Lacking(
    "reprover", "generates tactics from retrieved premises", "the models of ReProver and an index of premises"
)


async def run_reprover(goal: Goal, timeout: float) -> Result:  # noqa: ARG001 the interface as it is documented
    """`tactics` is the script; `metadata` has `premises`, the names of those that were in the prompt."""
    raise LACKING.error()
