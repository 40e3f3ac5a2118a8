"""What a build of a proof run says at its end: how many goals are proved, and which rows of the bank are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, RECALLED, Outcome
from pipeline.core.words import plural
from pipeline.goals.bank import told
from pipeline.goals.model import Refusal
from pipeline.proof.records import load
from pipeline.proof.results import headline

NAMED = 10  # rows that are told one by one


class Follower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._ended: dict[str, Target] = {}  # by stage, what is new

    def begin(self) -> None: ...

    def started(self, target: Target, new: bool) -> None: ...

    def ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in (BUILT, RECALLED):
            self._ended[target.stage] = target

    def over(self, stopped: bool) -> str:
        return "".join([*self._refused(), *self._results()])

    def _refused(self) -> Iterator[str]:
        if "bank" in self._ended:
            (bank,) = dict(self._ended["bank"].reads)["bank"]
            rows = [Refusal(**row) for row in load(_written(self._ended["bank"], "bank.json"))["refused"]]
            if rows:
                more = f"\n  and {len(rows) - NAMED} more" if len(rows) > NAMED else ""
                named = "".join(_line(bank, row) for row in rows[:NAMED])
                yield f"{plural(len(rows), 'row')} of the bank not counted:{named}{more}\n"

    def _results(self) -> Iterator[str]:
        if "report" in self._ended:
            path = _written(self._ended["report"], "results.json")
            yield f"{headline(load(path))}. See {path}."


follower = Follower


def _line(bank: str, row: Refusal) -> str:
    return f"\n  {told(bank, row)}"


def _written(target: Target, port: str) -> str:
    (path,) = dict(target.writes)[port]
    return path
