"""What the targets of a proof run do, by the name of the stage."""

from __future__ import annotations

from pipeline.banks import stages as banks
from pipeline.banks.stages import told
from pipeline.edge.job import Stage
from pipeline.proof.preparing import bank
from pipeline.proof.proving import prove
from pipeline.proof.pursuing import pursue
from pipeline.proof.reporting import check, report

STAGES = {
    **banks.STAGES,
    "bank": Stage("proof.bank/1", told(bank)),
    "prove": Stage("proof.prove/1", told(prove)),
    "check": Stage("proof.check/2", told(check)),
    "pursue": Stage("proof.pursue/1", told(pursue)),
    "report": Stage("proof.report/2", report),
}
