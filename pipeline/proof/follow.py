"""Follower of a proof build: at the end, how many goals are proved and which rows of the bank are no goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.core.graph import Target, path_of_port
from pipeline.core.outcome import BUILT, RECALLED, Outcome, Wait
from pipeline.goals.bank import bank_from_json, bank_lines
from pipeline.kinds import Follower
from pipeline.lean.backends.keys import has_library
from pipeline.proof.report import results_headline
from pipeline.store.records import load


class ProofFollower(Follower):
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._ended: dict[str, Target] = {}  # by stage, what is new

    def target_started(self, target: Target, new: bool) -> None: ...
    def target_waits(self, target: Target, wait: Wait) -> None: ...

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in (BUILT, RECALLED):
            self._ended[target.stage] = target

    def finish(self, stopped: bool) -> str:
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        """Lines about the rows of a bank read just now, and about new results."""
        if target := self._ended.get("bank"):
            (path,) = dict(target.reads)["bank"]
            bank = bank_from_json(load(path_of_port(target, "bank.json")))
            yield from bank_lines(path, bank.refused, bank.goals, has_library(target))
        if target := self._ended.get("report"):
            path = path_of_port(target, "results.json")
            yield f"{results_headline(load(path))}. See {path}."


follower = ProofFollower
