"""End of an mcts build: print the result, delete the journals of finished searches."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pipeline.core.graph import Target, path_of_port
from pipeline.core.outcome import BUILT, FAILED, RECALLED, Outcome, Wait
from pipeline.goals.bank import bank_lines, goal_from_json
from pipeline.kinds import Follower
from pipeline.lean.backends.keys import has_library
from pipeline.mcts.plan import COMPARE, GOAL, ROW_INDEX, ROWS, SEARCH, goal_of_target, journal_path
from pipeline.mcts.report.compare import comparison_headline
from pipeline.mcts.report.figures import REFUSED, row_refusals
from pipeline.store.records import load


class MctsFollower(Follower):
    def __init__(self, run: str, targets: Sequence[Target], todo: Sequence[Target]) -> None:
        self._rows = next((target for target in targets if target.stage == ROWS), None)
        self._goals = {goal_of_target(target): target for target in targets if target.stage == GOAL}
        self._new: defaultdict[str, list[Target]] = defaultdict(list)  # made or recalled now, by stage

    def target_started(self, target: Target, new: bool) -> None: ...
    def target_waits(self, target: Target, wait: Wait) -> None: ...

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        if target.stage == SEARCH and outcome.status != FAILED:  # the journal is among the outputs now
            with suppress(FileNotFoundError):
                os.unlink(journal_path(target))
        if outcome.status in (BUILT, RECALLED):
            self._new[target.stage].append(target)

    def finish(self, stopped: bool) -> str:
        lines = [*self._bank_lines()]
        for compared in self._new[COMPARE]:
            headline = comparison_headline(load(path_of_port(compared, "comparison.json")))
            lines.append(f"{headline}. See {path_of_port(compared, 'comparison.html')}.")
        return "".join(lines)

    def _bank_lines(self) -> Iterator[str]:
        """Refused rows, all of a bank that was read anew, else those looked at now; doubts about goals looked at."""
        looked_at, reread = {*map(goal_of_target, self._new[GOAL])}, bool(self._new[ROWS])
        if self._rows is None or not (reread or looked_at):
            return
        # where all was compared every goal is up to date
        known = self._goals if self._new[COMPARE] else {name: self._goals[name] for name in looked_at}
        goals = {name: load(path_of_port(target, "goal.json")) for name, target in known.items()}
        rows = load(path_of_port(self._rows, ROW_INDEX))
        refused = [each for each in row_refusals(rows, goals) if reread or each.id in looked_at]
        looked = sorted((rows["lines"][name], name) for name in looked_at if REFUSED not in goals[name])
        counted = [goal_from_json({**goals[name], "id": name, "line": line}) for line, name in looked]
        (bank,) = dict(self._rows.reads)["bank"]
        yield from bank_lines(bank, refused, counted, has_library(next(iter(self._goals.values()))))


follower = MctsFollower
