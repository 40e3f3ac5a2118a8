"""The last stage: what all searches came to, beside each other."""

from __future__ import annotations

import json

from pipeline.banks.records import Record, load, write
from pipeline.edge.job import Papers, written
from pipeline.mcts.comparison.comparing import compared
from pipeline.mcts.comparison.page import page
from pipeline.mcts.comparison.searches import table


def compare(job: Papers) -> None:
    params, searches = job.target.params, searches_of(job)
    told = compared(params["scenarios"], searches, params["budget"])
    # scenarios in the order of the spec, which sorted keys would lose
    write(written(job, "comparison.json"), json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    write(written(job, "comparison.csv"), table(searches))
    write(written(job, "comparison.html"), page(job.target.run, told))


def searches_of(job: Papers) -> list[Record]:
    cells = zip(job.target.params["cells"], job.reads["summaries"], strict=True)
    return [{"scenario": scenario, "seed": seed, "goal": goal, **load(path)} for (scenario, seed, goal), path in cells]
