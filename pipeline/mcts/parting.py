"""The stages before the searches: rows of the bank, which of them are goals, and what the ledger knows of tactics."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from pipeline.banks.banking import checked
from pipeline.banks.leans import shared
from pipeline.banks.records import goal_of, load, save
from pipeline.edge.job import Job, Papers, StageFailed, read, written
from pipeline.edge.ledger.reading import Reader
from pipeline.goals.bank import read_bank
from pipeline.goals.model import Bank
from pipeline.mcts.plan import PLACES, name_of
from pipeline.mcts.priors import shares as shares_of
from pipeline.mcts.refusing import REFUSED

# Of a row, what decides a search; the rest may be edited.
OF_ROW = ("text", "context")


def rows(job: Papers) -> None:
    """Where they are stands apart from them: a row that is moved is the same goal."""
    with open(read(job, "bank"), "rb") as file:
        bank = read_bank(file.read())
    found, asked = {goal.id: asdict(goal) for goal in bank.goals}, job.target.params["goals"]
    for name, path in zip(asked, job.writes["rows"], strict=True):
        if name not in found:
            raise StageFailed(f"the bank has no row '{name}' any more, which was planned for; build again", 1)
        save(path, {field: found[name][field] for field in OF_ROW})
    lines = {name: found[name]["line"] for name in asked}
    save(written(job, PLACES), {"refused": [asdict(each) for each in bank.refused], "lines": lines})


def goal(job: Job) -> None:
    """With its key; or why the row is no goal."""
    row = load(read(job, "row"))
    found = checked(Bank((goal_of({**row, "id": name_of(job.target)}),)), shared(job))
    told = [{REFUSED: each.why} for each in found.refused] or [{**row, "key": each.key} for each in found.goals]
    save(written(job, "goal.json"), told[0])


def shares(job: Job) -> None:
    toolchain = load(read(job, "toolchain.json"))["version"]
    with closing(Reader(job.target.params["ledger"])) as ledger:
        save(written(job, "shares.json"), {"shares": shares_of(ledger.recalled(toolchain).values())})
