"""What a `kind: steps` spec says, read and checked, before it is expanded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.core.graph import Limits
from pipeline.spec import Item
from pipeline.steps.templates import Template

Row = dict[str, str]


@dataclass(frozen=True)
class Gather:
    """All outputs of another step (or of one of its ports) whose `for` values agree with the reader's."""

    item: Item
    step: str
    port: str | None


@dataclass(frozen=True)
class File:
    """A path with {braces}."""

    item: Item
    path: Template


class Typed(Protocol):
    """A value of a `for:` as plain Python; a date, say, is text to a command but nothing to a function."""

    def plain(self) -> Any: ...


@dataclass(frozen=True)
class Number:
    """A value of a range."""

    value: int

    def plain(self) -> int:
        return self.value


@dataclass(frozen=True)
class Matrix:
    """The `for:` of a step: its names, and a row of values for each target.  `typed` is for Python calls."""

    names: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ({},)
    typed: tuple[dict[str, Typed], ...] = ({},)


@dataclass(frozen=True)
class Env:
    """What a step sees of the environment, besides PATH, HOME and locale."""

    fixed: dict[str, Template] = field(default_factory=dict)
    passed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    name: str
    item: Item
    keys: dict[str, Item]
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

    def at(self, key: str) -> Item:
        """Where to point when something about `key` is wrong."""
        return self.keys.get(key, self.item)


@dataclass(frozen=True)
class StepsSpec:
    name: str
    file: str
    steps: tuple[Step, ...]
    rooms: dict[str, int]
    store: str | None
    max_targets: int
