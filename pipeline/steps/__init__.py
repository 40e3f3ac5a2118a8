"""`kind: steps`: a plain make-like pipeline."""

from pipeline.steps.plan import plan
from pipeline.steps.read import read
from pipeline.steps.stages import STAGES

__all__ = ["STAGES", "plan", "read"]
