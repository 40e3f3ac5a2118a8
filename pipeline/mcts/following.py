"""What a build of an mcts run says at its end, and that a journal goes with the search it was of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pipeline.banks.following import refused, written_by
from pipeline.banks.records import load
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, RECALLED, Outcome
from pipeline.mcts.comparison.comparing import headline
from pipeline.mcts.drafts import path_of
from pipeline.mcts.plan import COMPARE, GOAL, SEARCH, name_of


class Follower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._compared: Target | None = None
        self._refused: list[str] = []  # rows that are no goals, of those that were looked at now

    def begin(self) -> None: ...

    def started(self, target: Target, new: bool) -> None: ...

    def ended(self, target: Target, outcome: Outcome) -> None:
        if target.stage == SEARCH and outcome.status != FAILED:  # the journal is among the outputs now
            with suppress(FileNotFoundError):
                os.unlink(path_of(target))
        if outcome.status not in (BUILT, RECALLED):
            return
        if target.stage == COMPARE:
            self._compared = target
        elif target.stage == GOAL and (why := load(written_by(target, "goal.json")).get("refused")):
            self._refused.append(f"{name_of(target)}: {why}")

    def over(self, stopped: bool) -> str:
        return "".join([*refused(self._refused), *self._results()])

    def _results(self) -> Iterator[str]:
        if self._compared:
            told = load(written_by(self._compared, "comparison.json"))
            yield f"{headline(told)}. See {written_by(self._compared, 'comparison.html')}."


follower = Follower
