"""How a build tells what it does: lines, JSON, or nothing."""

from __future__ import annotations

from typing import Any

from doit.reporter import ConsoleReporter, JsonReporter, ZeroReporter


class Lines(ConsoleReporter):  # type: ignore[misc]
    """One line an event."""

    def execute_task(self, task: Any) -> None:
        pass

    def skip_uptodate(self, task: Any) -> None:
        pass

    def add_success(self, task: Any) -> None:
        self.write(f"{task.outcome.status} {task.name}\n")

    def add_failure(self, task: Any, fail: Any) -> None:
        self.write(f"failed {task.name}: {fail.get_msg()}\n")

    def complete_run(self) -> None:
        pass


REPORTERS: dict[str, Any] = {"console": Lines, "json": JsonReporter, "zero": ZeroReporter}
