"""What a search for proofs came to: results.json, a row for each goal, and the proofs to be read.

Of the records of the search and of the last check alone, so that it comes out the same however often it is made."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Any

from pipeline.banks.records import Proof
from pipeline.core.words import duration, plural
from pipeline.edge.lean.model import Theorem

Record = Mapping[str, Any]

PROVED, OPEN, FRONTIER = "proved", "open", "frontier"
COLUMNS = (
    "config_id", "sample", "status", "solved", "seconds", "attempts", "goal", "line", "difficulty", "strategy", "level",
    "category", "topic",
)  # fmt: skip
QUANTILES = (0.5, 0.9, 1.0)


def counted(found: Sequence[Record], checked: Mapping[str, str]) -> list[Record]:
    """The records of the search, in which a proof that did not pass the last check is none."""
    return [
        {**each, "status": OPEN, "why": f"not verified: {checked[each['key']]}"} if checked.get(each["key"]) else each
        for each in found
    ]


def results(bank: Record, search: Record, found: Sequence[Record], pass_at: Sequence[int]) -> dict[str, Any]:
    """As it is documented; `found` has a record for each sample of each goal."""
    by_goal = grouped(found)
    times = sorted(time for each in by_goal.values() if (time := time_to_proof(each)) is not None)
    return {
        "timestamp": search["timestamp"],
        "goals_total": len(by_goal),
        "goals_processed": sum(all(one["status"] != FRONTIER for one in each) for each in by_goal.values()),
        "goals_solved": len(times),
        "strategies": strategies(found, search["strategies"]),
        "config": search["config"],
        "pass_at": {str(k): pass_at_k(by_goal.values(), k) for k in pass_at},
        "time_to_proof": {f"p{100 * q:g}": quantile(times, q) for q in QUANTILES},
        "seconds": search["seconds"],
        "stopped": search["stopped"],
        "samples": search["samples"],
        "toolchain": search["toolchain"],
        "goals_refused": len(bank["refused"]),
        "raised": raised(found),
        "goals": [_goal(name, each) for name, each in by_goal.items()],
    }


def headline(results: Record) -> str:
    total, solved, half = results["goals_total"], results["goals_solved"], results["time_to_proof"]["p50"]
    often = f", half of them within {duration(half, 2)}" if half is not None else ""
    open_ = total - results["goals_processed"]
    left = f"; {open_} not tried to the end ({results['stopped']})" if open_ else ""
    mistaken = results["raised"]
    faults = f"; attempts were ended by mistakes in their workers: {mistaken[0]}" if mistaken else ""
    return f"{solved} of {plural(total, 'goal')} proved{often}{left}{faults}"


def grouped(found: Iterable[Record]) -> dict[str, list[Record]]:
    """The samples of each goal."""
    groups: dict[str, list[Record]] = {}
    for each in found:
        groups.setdefault(each["goal"], []).append(each)
    return groups


def strategies(found: Iterable[Record], names: Iterable[str]) -> dict[str, dict[str, int]]:
    """How often each was used, and how often what it found is a proof."""
    counts = {name: {"used": 0, "succeeded": 0} for name in names}
    for each in found:
        for attempt in each["attempts"]:
            count = counts.setdefault(attempt["strategy"], {"used": 0, "succeeded": 0})
            count["used"] += 1
            count["succeeded"] += attempt["success"] and each["status"] == PROVED
    return counts


def raised(found: Iterable[Record]) -> list[str]:
    """The different mistakes of workers that ended attempts, in the order in which they came up."""
    errors = (attempt["error"] for each in found for attempt in each["attempts"] if attempt.get("raised"))
    return [*dict.fromkeys(errors)]


def pass_at_k(goals: Iterable[Sequence[Record]], k: int) -> float | None:
    """The chance that one of `k` samples is a proof, without bias from there being more; the mean over all goals.

    A sample that was not made counts as one that failed."""
    chances = [1 - _none_of(len(each), sum(one["status"] == PROVED for one in each), k) for each in goals]
    return round(sum(chances) / len(chances), 6) if chances else None


def _none_of(samples: int, proved: int, k: int) -> float:
    return comb(samples - proved, k) / comb(samples, k)


def time_to_proof(samples: Sequence[Record]) -> float | None:
    """Seconds of attempts until the first proof, of the first sample that has one."""
    return next((one["seconds"] for one in samples if one["status"] == PROVED), None)


def quantile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest that at least this part of them does not exceed."""
    return ordered[max(0, -(-len(ordered) * round(100 * part) // 100) - 1)] if ordered else None


def _goal(name: str, samples: Sequence[Record]) -> dict[str, Any]:
    won = next((one for one in samples if one["status"] == PROVED), samples[0])
    return {
        "id": name,
        "solved": won["status"] == PROVED,
        "proved": sum(one["status"] == PROVED for one in samples),
        "strategy": won["strategy"],
        "seconds": time_to_proof(samples),
        "spent": round(sum(one["seconds"] for one in samples), 3),
        "attempts": sum(len(one["attempts"]) for one in samples),
    }


def table(found: Iterable[Record]) -> str:
    """A row for each sample of each goal, such as `kind: tree` takes for the results of a sweep."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    numbers: dict[str, int] = {}
    for each in found:
        # no more of it: a bank's own words may be called like a column
        told = {name: each["metadata"].get(name, "") for name in ("category", "topic")}
        row = {"config_id": numbers.setdefault(each["goal"], len(numbers)), **each, **told}
        status = "ok" if each["status"] != FRONTIER else "not tried to the end"
        solved = int(each["status"] == PROVED)
        writer.writerow({**row, "status": status, "solved": solved, "attempts": len(each["attempts"])})
    return text.getvalue()


def told_proofs(found: Iterable[Record]) -> list[Proof]:
    """The proofs to be written as Lean, in the order of the bank."""
    return [_proof(each) for each in first_proofs(found)]


def _proof(won: Record) -> Proof:
    of = Theorem("goal", won["of"]["text"], tuple(won["of"]["context"]))
    return Proof(won["goal"], of, won["tactics"], f"{won['strategy']}, {won['seconds']:.3g} s")


def first_proofs(found: Iterable[Record]) -> list[Record]:
    proofs = [next((one for one in each if one["status"] == PROVED), None) for each in grouped(found).values()]
    return [proof for proof in proofs if proof]
