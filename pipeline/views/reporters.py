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


# doit knows no `begin` and no `stopping`, and asks itself for `initialize`; any other event every reporter has.
OPTIONAL = ("begin", "stopping", "initialize")


class Reporters:
    """Tells every event to all."""

    def __init__(self, reporters: Sequence[Any]) -> None:
        self._reporters = reporters

    def __getattr__(self, event: str) -> Callable[..., None]:
        told = [r for r in self._reporters if event not in OPTIONAL or hasattr(r, event)]
        heard = [getattr(reporter, event) for reporter in told]

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
