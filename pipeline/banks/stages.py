"""What the first target of a run that proves does, and how a stage says that there is no Lean."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from pipeline.banks.leans import described, ours
from pipeline.banks.records import save
from pipeline.edge.job import Job, Stage, StageFailed, written
from pipeline.edge.lean.model import LeanCrash, LeanKilled, LeanStartError
from pipeline.errors import SpecError


def told(do: Callable[[Job], None]) -> Callable[[Job], None]:
    """No Lean, one that is killed, a ledger that cannot be used: a line for people, and nobody's result."""

    @wraps(do)
    def done(job: Job) -> None:
        try:
            do(job)
        except (LeanStartError, LeanCrash, LeanKilled, SpecError) as problem:
            raise StageFailed(str(problem), 2) from problem

    return done


def toolchain(job: Job) -> None:
    """It is made if it is not there; what it is decides on all that follows."""
    params = job.target.params
    save(written(job, "toolchain.json"), described(params["backend"], params["project"]))


# In words that results of earlier versions are known by.
STAGES = {"toolchain": Stage(f"proof.toolchain/1 {ours()}", told(toolchain))}
