"""What a build says at its end of the bank: which of its rows are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.banks.records import load
from pipeline.core.graph import Target
from pipeline.core.words import plural
from pipeline.goals.bank import told
from pipeline.goals.model import Refusal

NAMED = 10  # rows that are told one by one


def refused(ended: Mapping[str, Target]) -> Iterator[str]:
    """`ended`: by stage, what is new."""
    if "bank" not in ended:
        return
    (bank,) = dict(ended["bank"].reads)["bank"]
    rows = [Refusal(**row) for row in load(written_by(ended["bank"], "bank.json"))["refused"]]
    if rows:
        more = f"\n  and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
        named = "".join(f"\n  {told(bank, row)}" for row in rows[:NAMED])
        yield f"{plural(len(rows), 'row')} of the bank not counted:{named}{more}\n"


def written_by(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path
