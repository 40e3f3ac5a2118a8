"""Runs whose kind wants to hear how their targets end, among the reporters of a build."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline import kinds
from pipeline.abilities import Follower
from pipeline.build.project import RunPlan
from pipeline.core.graph import Target
from pipeline.core.outcome import Outcome
from pipeline.views.events import Reporter


class Following(Reporter):
    """The follower of one run, told of that run's targets alone."""

    def __init__(self, kind: str, run: str) -> None:
        self._kind, self._run, self._stopped = kind, run, False
        self._follower: Follower | None = None

    def initialize(self, tasks: Any, selected: Any) -> None:
        todo = self._own(self.build.targets[i] for i in sorted(self.build.todo))
        makes = kinds.able(self._kind, kinds.FOLLOWING)
        follower = makes.follower(self._run, self._own(self.build.targets), todo)
        follower.begin()
        self._follower = follower

    def _own(self, targets: Iterable[Target]) -> Sequence[Target]:
        return [target for target in targets if target.run == self._run]

    def stopping(self, why: str) -> None:
        self._stopped = True

    def started(self, target: Target) -> None:
        if target.run == self._run and self._follower:
            self._follower.started(target, self.build.receipt(target) is None)

    def ended(self, target: Target, outcome: Outcome) -> None:
        if target.run == self._run and self._follower:
            self._follower.ended(target, outcome)

    def complete_run(self) -> None:
        if self._follower and (said := self._follower.over(self._stopped)):
            sys.stderr.write(f"{self._run}: {said}\n")


def followers(plans: Mapping[str, RunPlan]) -> Iterator[Following]:
    return (Following(plan.kind, run) for run, plan in plans.items() if kinds.can(plan.kind, kinds.FOLLOWING))
