"""How it went with one target: the words for it, and the record that the kernel hands to the views."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.core.freshness import Receipt

FRESH, RECALLED, BUILT, FAILED = "fresh", "recalled", "built", "failed"
SKIPPED, IGNORED = "skipped", "ignored"  # these were not even looked at


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
