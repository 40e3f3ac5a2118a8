"""The reporters of `coppice run`, by name, and how several of them listen to one build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pipeline.views.console import Console, ExecutedOnly
from pipeline.views.json_report import JsonReporter

# doit's own `zero` and `error-only` fit as they are.
REPORTERS: dict[str, Any] = {"console": Console, "executed-only": ExecutedOnly, "json": JsonReporter}


def junit(path: str) -> Any:
    from pipeline.views.junit import JUnit

    return JUnit(path)


class Told:
    """Tells every event to all; doit's own reporters and those of plugins do not know all of them."""

    def __init__(self, reporters: Sequence[Any]) -> None:
        self._reporters = reporters

    def __getattr__(self, event: str) -> Callable[..., None]:
        heard = [getattr(reporter, event) for reporter in self._reporters if hasattr(reporter, event)]

        def tell(*facts: Any) -> None:
            for hear in heard:
                hear(*facts)

        setattr(self, event, tell)
        return tell

    def complete_run(self) -> None:
        """Every one gets to its end, also when another one could not write."""
        with ExitStack() as ends:
            for reporter in self._reporters:
                ends.callback(reporter.complete_run)
