"""The worker `sketch`: a model proposes the steps of a proof, each a goal of its own."""

from __future__ import annotations

from pipeline.goals.model import Goal
from pipeline.proof.model import Result
from pipeline.proof.workers.lacking import Lacking

LACKING = Lacking(
    "sketch",
    "asks a model for the steps of a proof",
    "a model to ask, and a search that proves the steps as goals of their own",
)


async def run_sketch(goal: Goal, timeout: float) -> Result:  # noqa: ARG001 the interface as it is documented
    """`subgoals` are the steps that are open; success only when none is, so that a plausible sketch is no proof."""
    raise LACKING.error()
