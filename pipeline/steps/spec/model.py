"""Records of a `kind: steps` spec, read and checked, before it is expanded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.cages import CageKeys
from pipeline.core.graph import Limits
from pipeline.core.templates import Template
from pipeline.spec import Item
from pipeline.spec_fields import StorePlace, Values


class Gather(NamedTuple):
    """All outputs of another step (or of one of its ports) whose `for` values agree with the reader's."""

    item: Item
    step: str
    port: str | None


class File(NamedTuple):
    """A path with {braces}."""

    item: Item
    path: Template


class Matrix(NamedTuple):
    """The `for:` of a step by columns: what each name stands for in each of `size` targets."""

    columns: Mapping[str, Sequence[str]]
    size: int
    labels: Sequence[str]
    """The values of each row as part of the name of its target."""
    plain: Callable[[str, int], Any]
    """A value as plain Python, for calls; a date, say, is text to a command but nothing to a function."""

    def row(self, i: int) -> dict[str, str]:
        return {name: column[i] for name, column in self.columns.items()}


NO_MATRIX = Matrix({}, 1, ("",), lambda name, row: None)


class Env(NamedTuple):
    """The environment that a step sees, besides PATH, HOME and locale."""

    fixed: Mapping[str, Template]
    passed: tuple[str, ...] = ()


class Step(NamedTuple):
    name: str
    keys: Values
    matrix: Matrix
    argv: tuple[Template, ...] | None
    shell: Template | None
    call: str | None
    arguments: Any
    reads: dict[str, tuple[File | Gather, ...]]
    writes: dict[str, tuple[File, ...]]
    env: Env
    limits: Limits
    by_content: bool
    cage: CageKeys = CageKeys()


class StepsSpec(NamedTuple):
    name: str
    steps: tuple[Step, ...]
    rooms: dict[str, int]
    store: StorePlace | None
    max_targets: int
    at_once: int = 1  # as many as there are CPUs, or as `-n` says
    engine: Mapping[str, Any] = {}

    @property
    def sources(self) -> Mapping[str, int]:
        return {}

    @property
    def refusal(self) -> str:
        return ""
