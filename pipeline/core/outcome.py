"""Records of results: the outcome of a target, a forecast, the report of a gc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.core.freshness import Reason, Receipt
from pipeline.core.text import duration, join_names

# The status of a target.
FRESH, RECALLED, BUILT, FAILED = "fresh", "recalled", "built", "failed"
SKIPPED, IGNORED = "skipped", "ignored"  # these were not even looked at
STALE = "stale"  # of one that no build has looked at
OUTAGE = "outage"  # for people, of one that failed by nobody's fault


class Outcome(NamedTuple):
    """The end of a target.  `receipt` is to be recorded; None when there is nothing new.

    `outage`: of a failed one, which kind of outage kept it from being made (OUTAGE_WORDS); nobody has failed then."""

    status: str
    receipt: Receipt | None = None
    why: str = ""
    exit: int = 0
    attempts: int = 0
    start: float = 0.0
    end: float = 0.0
    log: str = ""
    fault: OSError | None = None  # the result is good, but the build cannot go on
    saved: float = 0.0  # seconds that it took when it was made: of what was recalled, or found fresh
    outage: str = ""

    @property
    def seconds(self) -> float:
        return self.end - self.start


# Reasons to stop that are no results, and each in words.
MODEL_UNAVAILABLE, KILLED_FROM_OUTSIDE, DISK_FULL = "model_unavailable", "killed_from_outside", "disk_full"
PROGRAM_MISSING, ANSWER_AWAITED, WORKERS_LOST = "program_missing", "answer_awaited", "workers_lost"
OUTAGE_WORDS = {
    MODEL_UNAVAILABLE: "a model cannot be asked",
    KILLED_FROM_OUTSIDE: "commands are killed from outside",
    DISK_FULL: "a disk is full",
    PROGRAM_MISSING: "a program is missing",
    ANSWER_AWAITED: "a person's answer is awaited",
    WORKERS_LOST: "workers on other machines are lost",
}


class Wait(NamedTuple):
    """Wait of a target for what is out.  `role`: who asked or what ran; `kind`: what is out; `seconds`: the pause."""

    role: str
    kind: str
    why: str
    seconds: float

    @property
    def line(self) -> str:
        who = f"{self.role}: "
        return f"{who}{self.why.removeprefix(who)}; tried again in {duration(self.seconds)}"


def needs_message(names: Sequence[str]) -> str:
    """Message for a target that cannot run because these above it did not succeed."""
    return f"needs {join_names(names)}"


class TargetTime(NamedTuple):
    """A target of a past build: how it ended, when it began, and how many seconds it took."""

    name: str
    status: str
    start: float
    seconds: float


class PastBuild(NamedTuple):
    """A build of a run; `seconds` is None of one that was killed.  `critical`: each waited for the one before it.

    `places`: of these, the seconds that one waited for a place though all that it reads was there."""

    number: int
    at: float
    seconds: float | None = None
    stopped: str = ""
    counts: Mapping[str, int] = {}
    saved: float = 0.0
    critical: Sequence[str] = ()
    targets: Sequence[TargetTime] = ()
    places: Mapping[str, float] = {}


# The action of a forecast; or FRESH, RECALLED or IGNORED, as an outcome.
RUN, MAYBE, HELD = "run", "maybe", "held"


class Forecast(NamedTuple):
    """Forecast for one target, and its differences from what was recorded.

    RUN: `may_recall` if some of its inputs are yet to be made, so that nobody knows what the store has for it.
    MAYBE: redone only if its inputs come out different.  HELD: stale, but held back by the missing file `held_by`; a
    FRESH target may be held too, without harm.  IGNORED: left out, fresh or not, because the user ignored `held_by`,
    which is the target itself or one above it."""

    action: str
    reasons: tuple[Reason, ...] = ()
    held_by: str = ""
    may_recall: bool = False


class FileCount(NamedTuple):
    """Number of files and of their bytes."""

    files: int = 0
    size: int = 0


class CheckoutRefs(NamedTuple):
    """References of another checkout: its place `host:/path`, the file with them, the number of stored results."""

    place: str
    file: str
    results: int


class GcReport(NamedTuple):
    """Report of a garbage collection: what was dropped from a store and what is left."""

    folder: str
    results: FileCount
    objects: FileCount
    drafts: FileCount
    damaged: FileCount
    left: FileCount
    others: tuple[CheckoutRefs, ...]
