"""What the targets of a proof run do, by the name of the stage."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from pipeline.edge.job import Job, Stage, StageFailed
from pipeline.edge.lean.model import LeanCrash, LeanStartError
from pipeline.errors import SpecError
from pipeline.proof.leans import ours
from pipeline.proof.preparing import bank, toolchain
from pipeline.proof.proving import prove
from pipeline.proof.pursuing import pursue
from pipeline.proof.reporting import check, report


def _told(do: Callable[[Job], None]) -> Callable[[Job], None]:
    """No Lean, a ledger that cannot be used: a line for people, and nobody's result."""

    @wraps(do)
    def done(job: Job) -> None:
        try:
            do(job)
        except (LeanStartError, LeanCrash, SpecError) as problem:
            raise StageFailed(str(problem), 2) from problem

    return done


STAGES = {
    "toolchain": Stage(f"proof.toolchain/1 {ours()}", _told(toolchain)),
    "bank": Stage("proof.bank/1", _told(bank)),
    "prove": Stage("proof.prove/1", _told(prove)),
    "check": Stage("proof.check/1", _told(check)),
    "pursue": Stage("proof.pursue/1", _told(pursue)),
    "report": Stage("proof.report/1", report),
}
