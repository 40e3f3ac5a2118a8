"""Targets as doit tasks, and what is recorded of them as doit's database."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from doit.dependency import DependencyStatus
from doit.task import Task

from pipeline.build.session import Session
from pipeline.build.statuses import Standing, standings
from pipeline.core.graph import Target
from pipeline.core.outcome import FRESH, IGNORED
from pipeline.core.words import count, listed
from pipeline.edge.receipts import FORGOTTEN, entry
from pipeline.edge.receipts import IGNORED as IGNORED_LINE


class TargetTask(Task):  # type: ignore[misc]
    """A doit task that knows its target."""

    def __init__(self, target: Target, needs: Iterable[str]) -> None:
        super().__init__(
            target.name,
            None,
            file_dep=target.inputs,
            targets=target.outputs,
            task_dep=list(needs),
            clean=True,
            subtask_of=target.run,
            doc=listed(target.outputs),
        )
        self.target = target


def tasks(session: Session) -> list[Task]:
    """A group for each run, then its targets: what doit's own commands work on."""
    out: list[Task] = []
    for run, plan in session.plans.items():
        own = [t for t in session.graph.targets if t.run == run]
        doc = f"{plan.kind}, {count(len(own))} ({plan.spec})"
        group = Task(run, None, task_dep=[t.name for t in own], has_subtask=True, doc=doc)
        out += [group, *(task(session, session.graph.index[t.name]) for t in own)]
    return out


def task(session: Session, i: int) -> TargetTask:
    targets = session.graph.targets
    return TargetTask(targets[i], [targets[j].name for j in session.graph.above(i)])


class Records:
    """doit's view of the receipts: the interface of doit.dependency.Dependency that its commands use.

    There is no database besides the receipts, so there is none that could be lost or be wrong."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def get_status(self, task: Task, tasks_dict: Any, get_log: bool = False) -> DependencyStatus:
        """The same that `graph` shows: of a run, whether anything in it is stale."""
        status = DependencyStatus(get_log)
        targets = [task.name] if isinstance(task, TargetTask) else task.task_dep
        if any(self._standings[self.session.graph.index[name]].status not in (FRESH, IGNORED) for name in targets):
            status.add_reason("uptodate_false", ("it is stale", [], {}))
        return status

    @cached_property
    def _standings(self) -> dict[int, Standing]:
        return standings(self.session, range(len(self.session.graph.targets)))

    def status_is_ignore(self, task: Task) -> bool:
        """Also of what lies below: that is left out too."""
        return isinstance(task, TargetTask) and self._standings[self.session.graph.index[task.name]].status == IGNORED

    def ignore(self, task: Task) -> None:
        if isinstance(task, TargetTask):
            self._append(task.name, IGNORED_LINE)

    def remove(self, name: str) -> None:
        """Forget a target: its result is neither fresh nor recalled until it has been made anew."""
        if name in self.session.graph.index:
            self._append(name, FORGOTTEN)

    def remove_all(self) -> None:
        for name in self.session.graph.index:
            self.remove(name)

    def remove_success(self, task: Task) -> None:
        """A failure is a line of its own in the receipts; what succeeded before stays true of its inputs."""

    def get_values(self, name: str) -> dict[str, Any]:
        return {}

    def _append(self, name: str, event: str) -> None:
        self.session.maker.receipts[name.partition(":")[0]].append([entry(name, event, {})])

    def close(self) -> None:
        for receipts in self.session.maker.receipts.values():
            receipts.sync()
        self.session.close()
