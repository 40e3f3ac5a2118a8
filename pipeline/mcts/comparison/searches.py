"""The records of searches: which count, which found a proof, what they spent, and all of them as a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.mcts.refusing import REFUSED
from pipeline.mcts.trace import (
    ABORT,
    BLOCKED,
    DEAD_NODE,
    DELAYED,
    EXPANDED,
    NO_EXPANSION,
    NO_GOAL,
    TERMINAL,
)

Record = Mapping[str, Any]

SOLVED, OPEN, DEAD, UNVERIFIED = "solved", "open", "dead", "unverified"
IDLE = "idle"  # of no_expansion, where nothing was tried
REASONS = (EXPANDED, NO_EXPANSION, BLOCKED, DELAYED, DEAD_NODE, TERMINAL, NO_GOAL, ABORT)
COLUMNS = (
    "scenario", "goal", "seed", "status", "solved", "error", "iterations", "calls", "iterations_to_proof",
    "calls_to_proof", "nodes", "expansions", "max_depth", "aborted", *REASONS, IDLE, "steps",
)  # fmt: skip


def counted(searches: Iterable[Record]) -> list[Record]:
    """In order of goals and seeds, without those of rows that are no goals."""
    return sorted((each for each in searches if each["status"] != REFUSED), key=pair)


def pair(search: Record) -> tuple[str, int]:
    """What makes searches of two scenarios one comparison."""
    return search["goal"], search["seed"]


def solved(search: Record) -> bool:
    return outcome(search) == SOLVED


def outcome(search: Record) -> str:
    """Its status; a proof that did not hold is none."""
    return UNVERIFIED if search["status"] == SOLVED and not search["verified"] else str(search["status"])


def by_seed(searches: Iterable[Record]) -> dict[int, list[Record]]:
    groups: dict[int, list[Record]] = {}
    for each in searches:
        groups.setdefault(each["seed"], []).append(each)
    return dict(sorted(groups.items()))


def spent_on(search: Record, what: str) -> int:
    """Iterations that ended for a reason, or that were idle."""
    return int(search[IDLE] if what == IDLE else search["reasons"].get(what, 0))


def table(searches: Sequence[Record]) -> str:
    """A row for each search, those of rows that are no goals among them."""
    ordered = sorted(searches, key=lambda each: (each["scenario"], *pair(each)))
    writer = csv.DictWriter(Lines(), COLUMNS, extrasaction="ignore", lineterminator="\n")
    return "".join([writer.writeheader(), *(writer.writerow(_row(each)) for each in ordered)])


class Lines:
    """Hands back what a writer of csv would have it keep."""

    def write(self, line: str) -> str:
        return line


def _row(search: Record) -> dict[str, Any]:
    proof = search["to_proof"] if solved(search) else None
    told = {**dict.fromkeys(REASONS, 0), **search["reasons"], **search, "status": outcome(search)}
    told |= {f"{what}_to_proof": proof[what] if proof else "" for what in ("iterations", "calls")}
    return {**told, "solved": int(solved(search)), "steps": len(search["script"])}
