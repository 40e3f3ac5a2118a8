"""A worker whose interface is settled, and which is not built."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.errors import SpecError


class NotBuilt(SpecError):
    """A spec asks for it."""


class Lacking(NamedTuple):
    """What it will do, and what that takes."""

    name: str
    does: str
    takes: str

    def error(self) -> NotBuilt:
        return NotBuilt(f"worker '{self.name}' is not built yet: it {self.does}, which takes {self.takes}")
