"""How it went with one target: the words for it, and the record that the kernel hands to the views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.core.freshness import Receipt
from pipeline.core.words import listed

FRESH, RECALLED, BUILT, FAILED = "fresh", "recalled", "built", "failed"
SKIPPED, IGNORED = "skipped", "ignored"  # these were not even looked at
STALE = "stale"  # of one that no build has looked at


class Outcome(NamedTuple):
    """`receipt` is what to record, None when there is nothing new."""

    status: str
    receipt: Receipt | None = None
    why: str = ""
    exit: int = 0
    attempts: int = 0
    start: float = 0.0
    end: float = 0.0
    log: str = ""
    fault: OSError | None = None  # the result is good, but the build cannot go on

    @property
    def seconds(self) -> float:
        return self.end - self.start


def needs(names: Sequence[str]) -> str:
    """Why a target cannot run: these above it did not succeed."""
    return f"needs {listed(names)}"
