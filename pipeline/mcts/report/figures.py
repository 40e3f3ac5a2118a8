"""Figures of one scenario, from the records of its searches, with intervals over seeds.

Rows of a bank that are malformed, refused by Lean or there twice do not count. A proof that did not hold is none.

Intervals are Student's t over one value for each seed. They say what other seeds would give on the same goals, and
nothing of other goals. With one seed there is none."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import exp, fsum, inf, log, sqrt
from typing import Any

from pipeline.core.text import round_decimals
from pipeline.goals.bank import Refusal
from pipeline.mcts.search.trace import ABORT, BLOCKED, DEAD_NODE, DELAYED, EXPANDED, NO_EXPANSION, NO_GOAL, TERMINAL
from pipeline.trust.student import t_quantile

RowRecord = Mapping[str, Any]

REFUSED = "refused"  # key of the reason in the file of a row that is no goal; and the status of its searches


def row_refusals(rows: RowRecord, goals: Mapping[str, RowRecord]) -> list[Refusal]:
    """Refused rows by line, from rows.json and each goals/GOAL.json; of equal statements the first row counts."""
    lines: Mapping[str, int] = rows["lines"]
    found, above = [Refusal(**row) for row in rows["refused"]], dict[str, str]()
    for name in sorted(goals, key=lines.__getitem__):
        if why := goals[name].get(REFUSED):
            found.append(Refusal(lines[name], name, why))
        elif (other := above.setdefault(goals[name]["key"], name)) != name:
            why = f"it is the statement of line {lines[other]} ({other}); drop one of them"
            found.append(Refusal(lines[name], name, why))
    return sorted(found, key=lambda each: each.line)


CONFIDENCE = 0.95
FIGURE_DIGITS = 6
SHARE_BOUNDS, DIFFERENCE_BOUNDS, AMOUNT_BOUNDS = (0.0, 1.0), (-1.0, 1.0), (0.0, inf)  # where such numbers can lie

Estimate = Mapping[str, Any]


def mean_over_seeds(values: Mapping[int, float], bounds: tuple[float, float]) -> Estimate:
    """Mean and interval over seeds: one value has no interval, none has no mean either.  `same`: all seeds agree."""
    mean, low, high = _student_interval(list(values.values()))
    lowest, highest = bounds
    clipped = (mean, low if low is None else max(low, lowest), high if high is None else min(high, highest))
    return _estimate(values, clipped)


def ratio_over_seeds(values: Mapping[int, float]) -> Estimate:
    """Geometric mean of ratios over seeds, with the interval on the scale of logarithms."""
    return _estimate(values, _student_interval([log(value) for value in values.values()]), exp)


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    half = len(ordered) // 2
    return mean(ordered[half:][:1] if len(ordered) % 2 else ordered[half - 1 : half + 1]) if ordered else None


round_figure = partial(round_decimals, digits=FIGURE_DIGITS)


def _student_interval(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    if not values:
        return None, None, None
    middle, df = mean(values), len(values) - 1
    if not df:
        return middle, None, None
    spread = sqrt(fsum((value - middle) ** 2 for value in values) / df / len(values))
    by = t_quantile((1 + CONFIDENCE) / 2, df) * spread
    return middle, middle - by, middle + by


def _estimate(
    values: Mapping[int, float], interval: Sequence[float | None], scale: Callable[[float], float] = float
) -> Estimate:
    of = {str(seed): round_figure(value) for seed, value in values.items()}
    figures = (None if each is None else round_figure(scale(each)) for each in interval)
    same = len(of) > 1 and len({*of.values()}) == 1
    return {**dict(zip(("mean", "low", "high"), figures, strict=True)), "same": same, "of": of}


Record = Mapping[str, Any]

SOLVED, OPEN, DEAD, UNVERIFIED = "solved", "open", "dead", "unverified"
IDLE = "idle"  # of no_expansion, where nothing was tried
REASONS = (EXPANDED, NO_EXPANSION, BLOCKED, DELAYED, DEAD_NODE, TERMINAL, NO_GOAL, ABORT)
COLUMNS = (
    "scenario", "goal", "seed", "status", "solved", "error", "iterations", "calls", "iterations_to_proof",
    "calls_to_proof", "nodes", "expansions", "max_depth", "aborted", *REASONS, IDLE, "steps",
)  # fmt: skip


def counted_searches(searches: Iterable[Record]) -> list[Record]:
    """Searches in order of goals and seeds, without those of rows that are no goals."""
    return sorted((each for each in searches if each["status"] != REFUSED), key=pair_key)


def pair_key(search: Record) -> tuple[str, int]:
    """Key of a pair: searches of two scenarios that have it are compared."""
    return search["goal"], search["seed"]


def is_solved(search: Record) -> bool:
    return search_outcome(search) == SOLVED


def search_outcome(search: Record) -> str:
    """Status of a search, UNVERIFIED where its proof did not hold."""
    return UNVERIFIED if search["status"] == SOLVED and not search["verified"] else str(search["status"])


def by_seed(searches: Iterable[Record]) -> dict[int, list[Record]]:
    groups: dict[int, list[Record]] = {}
    for each in searches:
        groups.setdefault(each["seed"], []).append(each)
    return dict(sorted(groups.items()))


def iterations_spent(search: Record, what: str) -> int:
    """Iterations that ended for a reason, or that were idle."""
    return int(search[IDLE] if what == IDLE else search["reasons"].get(what, 0))


def searches_csv(searches: Sequence[Record]) -> str:
    """A row for each search, those of rows that are no goals among them."""
    ordered = sorted(searches, key=lambda each: (each["scenario"], *pair_key(each)))
    writer = csv.DictWriter(LineSink(), COLUMNS, extrasaction="ignore", lineterminator="\n")
    return "".join([writer.writeheader(), *(writer.writerow(_csv_row(each)) for each in ordered)])


class LineSink:
    """A sink for csv that hands each line back."""

    def write(self, line: str) -> str:
        return line


def _csv_row(search: Record) -> dict[str, Any]:
    proof = search["to_proof"] if is_solved(search) else None
    row = {**dict.fromkeys(REASONS, 0), **search["reasons"], **search, "status": search_outcome(search)}
    row |= {f"{what}_to_proof": proof[what] if proof else "" for what in ("iterations", "calls")}
    return {**row, "solved": int(is_solved(search)), "steps": len(search["script"])}


OUTCOMES = (SOLVED, OPEN, DEAD, UNVERIFIED)
WASTED = (BLOCKED, DELAYED, IDLE)  # what an iteration is spent on to no effect
NEAR = 1.3  # a checkpoint nearer to the last, as a ratio, says nothing new
COSTS = ("iterations", "calls")

Searches = Sequence[Record]


def scenario_figures(found: Searches) -> dict[str, Any]:
    return {
        "searches": len(found),
        "outcomes": {what: sum(search_outcome(each) == what for each in found) for what in OUTCOMES},
        "solved": {str(seed): sum(map(is_solved, some)) for seed, some in by_seed(found).items()},
        "share": _figure_over_seeds(found, lambda some: mean([is_solved(each) for each in some]), SHARE_BOUNDS),
        "to_proof": {what: _cost_of_proofs(found, what) for what in COSTS},
        "spent": {what: _cost_per_goal(found, what) for what in COSTS},
        "calls_per_proof": _calls_per_proof(found),
        "iterations": _iteration_uses(found),
        "wrong": [_unverified_record(each) for each in found if search_outcome(each) == UNVERIFIED],
    }


def solved_within(found: Mapping[str, Searches]) -> dict[str, Any]:
    """The share of all searches of a scenario, of whatever seed, that had a proof after so many calls.

    `steps`: where it grows, and to what.  `at`: some numbers of calls at which there are intervals."""
    proofs = [each["to_proof"]["calls"] for some in found.values() for each in some if is_solved(each)]
    at = _checkpoints(min(proofs), max(each["calls"] for some in found.values() for each in some)) if proofs else []
    shares = {name: [_share_within(some, calls) for calls in at] for name, some in found.items()}
    return {"at": at, "shares": shares, "steps": {name: _solved_steps(some) for name, some in found.items()}}


def _figure_over_seeds(
    found: Searches, figure: Callable[[Searches], float], bounds: tuple[float, float] = AMOUNT_BOUNDS
) -> Estimate:
    return mean_over_seeds({seed: figure(some) for seed, some in by_seed(found).items()}, bounds)


def _cost_of_proofs(found: Searches, what: str) -> dict[str, Any]:
    """Cost of the proofs alone, which flatters a scenario that solves only easy goals."""
    proved = [each for each in found if is_solved(each)]
    middle = median([each["to_proof"][what] for each in proved])
    return {
        "median": middle,
        "mean": _figure_over_seeds(proved, lambda some: mean([each["to_proof"][what] for each in some])),
    }


def _cost_per_goal(found: Searches, what: str) -> Estimate:
    """Cost of a goal, solved or not."""
    return _figure_over_seeds(found, lambda some: mean([each[what] for each in some]))


def _calls_per_proof(found: Searches) -> Estimate:
    """Calls of a seed for each of its proofs; none if a seed has no proof: leaving that seed out would flatter."""
    if not all(any(map(is_solved, some)) for some in by_seed(found).values()):
        return mean_over_seeds({}, AMOUNT_BOUNDS)
    return _figure_over_seeds(found, lambda some: sum(each["calls"] for each in some) / sum(map(is_solved, some)))


def _iteration_uses(found: Searches) -> dict[str, Any]:
    """Uses of iterations, as shares of all."""
    return {
        "all": sum(each["iterations"] for each in found),
        "nothing": _iteration_share(found, WASTED),
        "idle": _iteration_share(found, (IDLE,)),
        "reasons": {reason: _iteration_share(found, (reason,)) for reason in REASONS},
    }


def _iteration_share(found: Searches, whats: Sequence[str]) -> Estimate:
    def share(some: Searches) -> float:
        spent = sum(iterations_spent(each, what) for each in some for what in whats)
        return float(spent / sum(each["iterations"] for each in some))

    return _figure_over_seeds([each for each in found if each["iterations"]], share, SHARE_BOUNDS)


def _unverified_record(search: Record) -> dict[str, Any]:
    return {"goal": search["goal"], "seed": search["seed"], "outcome": search_outcome(search), "error": search["error"]}


def _checkpoints(least: int, most: int) -> list[int]:
    """Checkpoints: of 1, 3, 10, 30 and so on those between `least` and `most`, with the last one before; and `most`."""
    every = [first * 10**power for power in range(len(str(most))) for first in (1, 3)]
    below = [each for each in every if NEAR * each <= most]
    begun = max((each for each in below if each <= least), default=least)
    return [*(each for each in below if each >= begun), most]


def _share_within(found: Searches, calls: int) -> Estimate:
    return _figure_over_seeds(
        found,
        lambda some: mean([is_solved(each) and each["to_proof"]["calls"] <= calls for each in some]),
        SHARE_BOUNDS,
    )


def _solved_steps(found: Searches) -> list[list[float]]:
    times = sorted(Counter(each["to_proof"]["calls"] for each in found if is_solved(each)).items())
    totals = accumulate(number for _, number in times)
    return [[calls, round_figure(total / len(found))] for (calls, _), total in zip(times, totals, strict=True)]
