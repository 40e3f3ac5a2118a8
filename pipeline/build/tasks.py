"""Targets as doit tasks, and what is recorded of them as doit's database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from doit.dependency import DependencyStatus
from doit.task import Task

from pipeline.build.make import Outcome
from pipeline.build.session import Session
from pipeline.core.freshness import Reason, reasons
from pipeline.core.graph import Target
from pipeline.edge.receipts import FORGOTTEN, IGNORED, Line


class TargetTask(Task):  # type: ignore[misc]
    """A doit task that knows its target, and after a build how it went."""

    def __init__(self, target: Target, needs: Iterable[str]) -> None:
        super().__init__(
            target.name,
            None,
            file_dep=target.inputs,
            targets=target.outputs,
            task_dep=list(needs),
            clean=True,
            subtask_of=target.run,
            doc=target.stage,
        )
        self.target = target
        self.outcome: Outcome | None = None


def tasks(session: Session) -> list[Task]:
    """A group for each run, then its targets: what doit's own commands work on."""
    out: list[Task] = []
    for run, plan in session.plans.items():
        own = [t for t in session.graph.targets if t.run == run]
        doc = f"{plan.kind}, {len(own)} targets ({plan.spec})"
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
        status = DependencyStatus(get_log)
        if not isinstance(task, TargetTask):
            below = [tasks_dict[name] for name in task.task_dep if name in tasks_dict]
            if any(self.get_status(sub, tasks_dict).status != "up-to-date" for sub in below):
                status.add_reason("uptodate_false", ("some of its targets are stale", [], {}))
            return status
        for reason in self.why(task.target):
            if status.add_reason("uptodate_false", (shown(reason), [], {})):
                return status
        return status

    def why(self, target: Target) -> list[Reason]:
        """Why the target itself is stale; what it reads may be stale on top of that."""
        maker = self.session.maker
        inputs = {path: maker.files.content(path) for path in target.inputs}
        outputs = {path: maker.files.content(path) for path in target.outputs}
        receipt = maker.receipts[target.run].receipt(target.name)
        return list(reasons(receipt, maker.recipe(target), inputs, outputs))

    def status_is_ignore(self, task: Task) -> bool:
        return isinstance(task, TargetTask) and self.session.maker.receipts[task.target.run].ignored(task.name)

    def ignore(self, task: Task) -> None:
        if isinstance(task, TargetTask):
            self._append(task.name, Line(task.name, IGNORED, {}))

    def remove(self, name: str) -> None:
        """Forget a target: its result is neither fresh nor recalled until it has been made anew."""
        if name in self.session.graph.index:
            self._append(name, Line(name, FORGOTTEN, {}))

    def remove_all(self) -> None:
        for name in self.session.graph.index:
            self.remove(name)

    def remove_success(self, task: Task) -> None:
        """A failure is a line of its own in the receipts; what succeeded before stays true of its inputs."""

    def get_values(self, name: str) -> dict[str, Any]:
        return {}

    def _append(self, name: str, line: Line) -> None:
        self.session.maker.receipts[name.partition(":")[0]].append([line])

    def close(self) -> None:
        for receipts in self.session.maker.receipts.values():
            receipts.sync()
        self.session.close()


def shown(reason: Reason) -> str:
    change = f": {_short(reason.old)} -> {_short(reason.new)}" if (reason.old, reason.new) != (None, None) else ""
    return f"{reason.what} {reason.where}{change}".strip()


def _short(value: Any) -> str:
    """A sha256 is known by its first digits; anything else is shown as it is."""
    text = "nothing" if value is None else value if isinstance(value, str) else repr(value)
    is_sha = len(text) == 64 and all(c in "0123456789abcdef" for c in text)
    return text[:12] if is_sha else text
