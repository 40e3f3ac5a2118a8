"""The last stage: what all searches came to, beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pipeline.banks.records import Record, load, write
from pipeline.edge.job import Papers, read, written
from pipeline.mcts.comparison.comparing import Run, compared
from pipeline.mcts.comparison.page import page
from pipeline.mcts.comparison.searches import table
from pipeline.mcts.plan import PLACES
from pipeline.mcts.refusing import REFUSED, refusals


def compare(job: Papers) -> None:
    params, searches = job.target.params, searches_of(job)
    lean, malformed = load(read(job, "toolchain.json")), load(read(job, PLACES))["refused"]
    run = Run(params["budget"], params["shared"], lean, params["bank"], malformed)
    told = compared(params["scenarios"], searches, run)
    # scenarios in the order of the spec, which sorted keys would lose
    write(written(job, "comparison.json"), json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    write(written(job, "comparison.csv"), table(searches))
    write(written(job, "comparison.html"), page(job.target.run, told))


def searches_of(job: Papers) -> list[Record]:
    """Those of a statement that is there twice count once."""
    wrong, cells = _wrong(job), zip(job.target.params["cells"], job.reads["summaries"], strict=True)
    return [
        {"scenario": scenario, "seed": seed, "goal": goal, **load(path), **wrong.get(goal, {})}
        for (scenario, seed, goal), path in cells
    ]


def _wrong(job: Papers) -> Mapping[str, Record]:
    """Why goals do not count."""
    goals = {name: load(path) for name, path in zip(job.target.params["goals"], job.reads["goals"], strict=True)}
    found = refusals({**load(read(job, PLACES)), "refused": []}, goals)
    return {each.id: {"status": REFUSED, "error": each.why} for each in found}
