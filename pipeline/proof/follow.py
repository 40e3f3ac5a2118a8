"""Follower of a proof build: at the end, how many goals are proved and which rows of the bank are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.banks.records import goal_of, load
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, RECALLED, Outcome
from pipeline.goals.bank import Refusal, doubts, refusal_line
from pipeline.goals.proving import doubted, has_library, path_of_port, refused_rows
from pipeline.proof.report import results_headline


class ProofFollower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._ended: dict[str, Target] = {}  # by stage, what is new

    def begin(self) -> None: ...

    def target_started(self, target: Target, new: bool) -> None: ...

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in (BUILT, RECALLED):
            self._ended[target.stage] = target

    def finish(self, stopped: bool) -> str:
        return "".join([*refused_rows(self._refused()), *doubted(self._doubts()), *self._results()])

    def _refused(self) -> Sequence[str]:
        if "bank" not in self._ended:
            return ()
        (bank,) = dict(self._ended["bank"].reads)["bank"]
        rows = load(path_of_port(self._ended["bank"], "bank.json"))["refused"]
        return [refusal_line(bank, Refusal(**row)) for row in rows]

    def _doubts(self) -> Sequence[str]:
        if "bank" not in self._ended:
            return ()
        target = self._ended["bank"]
        (bank,) = dict(target.reads)["bank"]
        goals = map(goal_of, load(path_of_port(target, "bank.json"))["goals"])
        return [refusal_line(bank, each) for goal in goals for each in doubts(goal, has_library(target))]

    def _results(self) -> Iterator[str]:
        if "report" in self._ended:
            path = path_of_port(self._ended["report"], "results.json")
            yield f"{results_headline(load(path))}. See {path}."


follower = ProofFollower
