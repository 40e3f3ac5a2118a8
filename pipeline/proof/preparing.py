"""The stage that says which rows of the bank are goals."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

from pipeline.banks.banking import checked
from pipeline.banks.leans import opened
from pipeline.banks.records import as_record, save
from pipeline.core.words import plural
from pipeline.edge.job import Job, read, written
from pipeline.errors import SpecError
from pipeline.goals.bank import read_bank, told
from pipeline.goals.model import Refusal


def bank(job: Job) -> None:
    with open(read(job, "bank"), "rb") as file:
        rows = read_bank(file.read())
    with closing(opened(job)) as lean:
        found = checked(rows, lean)
    if not found.goals:
        raise SpecError(_empty(read(job, "bank"), found.refused))
    save(
        written(job, "bank.json"),
        {"goals": [*map(as_record, found.goals)], "refused": [*map(asdict, found.refused)]},
    )


def _empty(path: str, refused: Sequence[Refusal]) -> str:
    """A bank that has nothing to prove is another file than was meant, or wrong as a whole."""
    first = f"; of {plural(len(refused), 'row')} none counts, the first: {told(path, refused[0])}" if refused else ""
    return f"{path}: no row is a goal{first}"
