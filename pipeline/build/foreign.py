"""Reporters of doit's, and of other people's plugins for doit: they are told of tasks, in doit's words."""

from __future__ import annotations

from typing import Any

from doit.exceptions import TaskFailed, UnmetDependency

from pipeline.build.session import Session
from pipeline.build.tasks import TargetTask, task
from pipeline.core.graph import Target
from pipeline.core.outcome import FAILED, FRESH, IGNORED, SKIPPED, Outcome
from pipeline.views.events import Reporter


class ForeignReporter(Reporter):
    """Stands between our events and `theirs`, which knows no `begin` and no `stopping`."""

    def __init__(self, theirs: Any, session: Session) -> None:
        self._theirs, self._session = theirs, session

    def started(self, target: Target) -> None:
        self._theirs.execute_task(self._task(target))

    def ended(self, target: Target, outcome: Outcome) -> None:
        done = self._task(target)
        if outcome.status == FRESH:
            self._theirs.skip_uptodate(done)
        elif outcome.status == IGNORED:
            self._theirs.skip_ignore(done)
        elif outcome.status in (FAILED, SKIPPED):
            failure = TaskFailed if outcome.status == FAILED else UnmetDependency
            self._theirs.add_failure(done, failure(outcome.why))
        else:
            self._theirs.add_success(done)

    def initialize(self, tasks: Any, selected: Any) -> None:
        if hasattr(self._theirs, "initialize"):  # doit asks that, too
            self._theirs.initialize(tasks, selected)

    def complete_run(self) -> None:
        self._theirs.complete_run()

    def _task(self, target: Target) -> TargetTask:
        return task(self._session, self._session.graph.index[target.name])
