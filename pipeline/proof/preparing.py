"""The first two stages: which Lean everything is asked of, and which rows of the bank are goals."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from pipeline.edge.job import Job
from pipeline.goals.bank import read_bank
from pipeline.proof.banking import checked
from pipeline.proof.leans import described, opened
from pipeline.proof.records import as_record, save
from pipeline.proof.reporting import read, written


def toolchain(job: Job) -> None:
    """It is made if it is not there; what it is decides on all that follows."""
    params = job.target.params
    save(written(job, "toolchain.json"), described(params["backend"], params["project"]))


def bank(job: Job) -> None:
    with open(read(job, "bank"), "rb") as file:
        rows = read_bank(file.read())
    with closing(opened(job)) as lean:
        found = checked(rows, lean)
    save(
        written(job, "bank.json"),
        {"goals": [*map(as_record, found.goals)], "refused": [*map(asdict, found.refused)]},
    )
