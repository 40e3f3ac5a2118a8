"""The stages before the searches: a file for each goal, and what the ledger knows of tactics."""

from __future__ import annotations

from contextlib import closing

from pipeline.banks.records import load, save
from pipeline.edge.job import Job, Papers, StageFailed, read, written
from pipeline.edge.ledger.reading import Reader
from pipeline.mcts.priors import shares as shares_of

# Of a goal, what decides a search; the rest may be edited.
OF_GOAL = ("id", "text", "context", "key")


def goals(job: Papers) -> None:
    """So that an edit of the bank is an edit of the goals that it changes."""
    bank = load(read(job, "bank.json"))
    found = {each["id"]: {"refused": each["why"]} for each in bank["refused"]}
    found |= {each["id"]: {name: each[name] for name in OF_GOAL} for each in bank["goals"]}
    for name, path in zip(job.target.params["goals"], job.writes["goals"], strict=True):
        if name not in found:
            raise StageFailed(f"the bank has no row '{name}' any more, which was planned for; build again", 1)
        save(path, found[name])


def shares(job: Job) -> None:
    toolchain = load(read(job, "toolchain.json"))["version"]
    with closing(Reader(job.target.params["ledger"])) as ledger:
        save(written(job, "shares.json"), {"shares": shares_of(ledger.recalled(toolchain).values())})
