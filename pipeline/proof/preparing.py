"""The first two stages: the Lean that everything is asked of, and which rows of the bank are goals."""

from __future__ import annotations

import json
from contextlib import closing

from pipeline.edge.job import Job
from pipeline.goals.model import Goal
from pipeline.proof.leans import opened
from pipeline.proof.records import as_record, save
from pipeline.proof.reporting import written


def toolchain(job: Job) -> None:
    with closing(
        opened(job.processes, {"backend": job.target.params["backend"], "processes": 1, "memory": 1400})
    ) as lean:
        save(written(job, "toolchain.json"), {"version": lean.version})


def bank(job: Job) -> None:
    (path,) = job.reads["bank"]
    goals = []
    with open(path) as file:
        for n, line in enumerate(file, 1):
            row = json.loads(line)
            goals.append(
                Goal(
                    row["id"],
                    row["goal"],
                    row["difficulty"],
                    row["priority"],
                    tuple(row["context"]),
                    row["metadata"],
                    n,
                    row["goal"],
                )
            )
    save(written(job, "bank.json"), {"goals": [*map(as_record, goals)], "refused": []})
