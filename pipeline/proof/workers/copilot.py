"""The worker `copilot`: LeanCopilot's search for a proof, run as a tactic in the project's own Lean."""

from __future__ import annotations

from pipeline.goals.model import Goal
from pipeline.proof.model import Result
from pipeline.proof.workers.lacking import Lacking

LACKING = Lacking(
    "copilot", "runs LeanCopilot's search_proof", "a project that depends on LeanCopilot, through the backend leandojo"
)


async def run_copilot(goal: Goal, timeout: float) -> Result:  # noqa: ARG001 the interface as it is documented
    """`tactics` is the script that the search found, not `search_proof` itself; `metadata` the premises it selected."""
    raise LACKING.error()
