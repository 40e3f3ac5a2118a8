"""What a build of a proof run says at its end: how many goals are proved, and which rows of the bank are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.banks.following import doubted, has_library, refused, written_by
from pipeline.banks.records import goal_of, load
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, RECALLED, Outcome
from pipeline.goals.bank import doubts, told
from pipeline.goals.model import Refusal
from pipeline.proof.results import headline


class Follower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._ended: dict[str, Target] = {}  # by stage, what is new

    def begin(self) -> None: ...

    def started(self, target: Target, new: bool) -> None: ...

    def ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in (BUILT, RECALLED):
            self._ended[target.stage] = target

    def over(self, stopped: bool) -> str:
        return "".join([*refused(self._refused()), *doubted(self._doubts()), *self._results()])

    def _refused(self) -> Sequence[str]:
        if "bank" not in self._ended:
            return ()
        (bank,) = dict(self._ended["bank"].reads)["bank"]
        rows = load(written_by(self._ended["bank"], "bank.json"))["refused"]
        return [told(bank, Refusal(**row)) for row in rows]

    def _doubts(self) -> Sequence[str]:
        if "bank" not in self._ended:
            return ()
        target = self._ended["bank"]
        (bank,) = dict(target.reads)["bank"]
        goals = map(goal_of, load(written_by(target, "bank.json"))["goals"])
        return [told(bank, each) for goal in goals for each in doubts(goal, has_library(target))]

    def _results(self) -> Iterator[str]:
        if "report" in self._ended:
            path = written_by(self._ended["report"], "results.json")
            yield f"{headline(load(path))}. See {path}."


follower = Follower
