"""What a build of an mcts run says at its end, and that a journal goes with the search it was of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from pipeline.banks.following import refused, written_by
from pipeline.banks.records import load
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, RECALLED, Outcome
from pipeline.mcts.comparison.comparing import headline
from pipeline.mcts.drafts import path_of
from pipeline.mcts.plan import COMPARE, SEARCH


class Follower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._ended: dict[str, Target] = {}  # by stage, what is new

    def begin(self) -> None: ...

    def started(self, target: Target, new: bool) -> None: ...

    def ended(self, target: Target, outcome: Outcome) -> None:
        if outcome.status in (BUILT, RECALLED):
            self._ended[target.stage] = target
            if target.stage == SEARCH:  # it is among the outputs now
                with suppress(FileNotFoundError):
                    os.unlink(path_of(target))

    def over(self, stopped: bool) -> str:
        return "".join([*refused(self._ended), *self._results()])

    def _results(self) -> Sequence[str]:
        if COMPARE not in self._ended:
            return ()
        told = load(written_by(self._ended[COMPARE], "comparison.json"))
        return (f"{headline(told)}. See {written_by(self._ended[COMPARE], 'comparison.html')}.",)


follower = Follower
