"""The kinds of run.  A new one is a package with `read`, `plan` and `STAGES`, and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol

from pipeline.core.graph import Target
from pipeline.edge.job import Stage
from pipeline.spec import Item, instead

KINDS = {"steps": "pipeline.steps"}


class Spec(Protocol):
    """What the kernel asks of any kind's spec."""

    @property
    def rooms(self) -> dict[str, int]: ...
    @property
    def store(self) -> str | None: ...


class Kind(Protocol):
    """What a kind's package offers."""

    STAGES: Mapping[str, Stage]

    def read(self, item: Item, name: str) -> Any: ...
    def plan(self, spec: Any) -> Iterable[Target]: ...


def kind_of(item: Item) -> str:
    for name, value in item.pairs("spec"):
        if name == "kind":
            kind = value.text("kind")
            if kind not in KINDS:
                value.wrong(f"kind: '{kind}' is unknown{instead(kind, KINDS)}")
            return kind
    item.wrong(f"spec: 'kind' is missing; one of: {', '.join(KINDS)}")


def load(kind: str) -> Kind:
    module: Any = import_module(KINDS[kind])
    return module  # type: ignore[no-any-return]
