"""What a build of an mcts run says at its end, and that a journal goes with the search it was of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pipeline.banks.following import doubted, has_library, refused, written_by
from pipeline.banks.records import goal_of, load
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, RECALLED, Outcome
from pipeline.goals.bank import doubts, told
from pipeline.mcts.comparison.comparing import headline
from pipeline.mcts.drafts import path_of
from pipeline.mcts.plan import COMPARE, GOAL, PLACES, ROWS, SEARCH, name_of
from pipeline.mcts.refusing import REFUSED, refusals


class Follower:
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._rows = next((target for target in targets if target.stage == ROWS), None)
        self._goals = {name_of(target): target for target in targets if target.stage == GOAL}
        self._compared: Target | None = None
        self._reread = False  # the bank
        self._looked: set[str] = set()  # goals that were looked at now

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
        elif target.stage == ROWS:
            self._reread = True
        elif target.stage == GOAL:
            self._looked.add(name_of(target))

    def over(self, stopped: bool) -> str:
        return "".join([*refused([*self._refused()]), *doubted([*self._doubts()]), *self._results()])

    def _refused(self) -> Iterator[str]:
        """Of a bank that was read anew all rows, else those that were looked at now."""
        if self._rows is None or not (self._reread or self._looked):
            return
        (bank,) = dict(self._rows.reads)["bank"]
        # where all was compared every goal is up to date
        known = self._goals if self._compared else {name: self._goals[name] for name in self._looked}
        goals = {name: load(written_by(target, "goal.json")) for name, target in known.items()}
        for each in refusals(load(written_by(self._rows, PLACES)), goals):
            if self._reread or each.id in self._looked:
                yield told(bank, each)

    def _doubts(self) -> Iterator[str]:
        """Of goals that were looked at now."""
        if self._rows is None or not self._looked:
            return
        (bank,) = dict(self._rows.reads)["bank"]
        lines = load(written_by(self._rows, PLACES))["lines"]
        for name in sorted(self._looked, key=lines.__getitem__):
            row = load(written_by(self._goals[name], "goal.json"))
            if REFUSED not in row:
                goal = goal_of({**row, "id": name, "line": lines[name]})
                yield from (told(bank, each) for each in doubts(goal, has_library(self._goals[name])))

    def _results(self) -> Iterator[str]:
        if self._compared:
            found = load(written_by(self._compared, "comparison.json"))
            yield f"{headline(found)}. See {written_by(self._compared, 'comparison.html')}."


follower = Follower
