"""Figures of one scenario, from the records of its searches, with intervals over seeds.

Rows of a bank that are malformed, refused by Lean or there twice do not count. A proof that did not hold is none.
Intervals are Student's t over one value for each seed. They say what other seeds would give on the same goals."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import exp, fsum, inf, log, sqrt
from typing import Any, NamedTuple, TypedDict, TypeVar

from pipeline.core.text import round_decimals
from pipeline.goals.bank import Refusal
from pipeline.mcts.search.trace import ABORT, BLOCKED, DEAD_NODE, DELAYED, EXPANDED, NO_EXPANSION, NO_GOAL, TERMINAL
from pipeline.trust.distributions import t_quantile

REFUSED = "refused"  # key of the reason in the file of a row that is no goal; and the status of its searches


def row_refusals(rows: Mapping[str, Any], goals: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
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


SOLVED, OPEN, DEAD, UNVERIFIED = "solved", "open", "dead", "unverified"
OUTCOMES = (SOLVED, OPEN, DEAD, UNVERIFIED)
IDLE = "idle"  # of no_expansion, where nothing was tried
REASONS = (EXPANDED, NO_EXPANSION, BLOCKED, DELAYED, DEAD_NODE, TERMINAL, NO_GOAL, ABORT)


class SearchFigures(NamedTuple):
    """One search: its place in the run, and its summary.json."""

    scenario: str
    seed: int
    goal: str
    status: str
    verified: bool
    error: str
    nodes: int
    expansions: int
    max_depth: int
    aborted: int
    iterations: int
    calls: int
    idle: int
    reasons: Mapping[str, int]
    to_proof: Mapping[str, int] | None
    script: Sequence[str]

    @property
    def outcome(self) -> str:
        """The status, UNVERIFIED where the proof did not hold."""
        return UNVERIFIED if self.status == SOLVED and not self.verified else self.status

    @property
    def proof(self) -> Mapping[str, int] | None:
        """Iterations and calls up to the proof, if it held."""
        return self.to_proof if self.outcome == SOLVED else None


COLUMNS = (
    "scenario", "goal", "seed", "status", "solved", "error", "iterations", "calls", "iterations_to_proof",
    "calls_to_proof", "nodes", "expansions", "max_depth", "aborted", *REASONS, IDLE, "steps",
)  # fmt: skip


def searches_csv(searches: Iterable[SearchFigures]) -> str:
    """A row for each search, those of rows that are no goals among them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for each in sorted(searches, key=lambda each: (each.scenario, each.goal, each.seed)):
        row = {**dict.fromkeys(REASONS, 0), **each.reasons, **each._asdict(), "status": each.outcome}
        row |= {f"{what}_to_proof": spent for what, spent in (each.proof or {}).items()}
        writer.writerow({**row, "solved": int(each.outcome == SOLVED), "steps": len(each.script)})
    return text.getvalue()


CONFIDENCE = 0.95
FIGURE_DIGITS = 6
SHARE_BOUNDS, DIFFERENCE_BOUNDS, AMOUNT_BOUNDS = (0.0, 1.0), (-1.0, 1.0), (0.0, inf)  # where such numbers can lie


class Estimate(TypedDict):
    """A figure over seeds: one value has no interval, none has no mean either.  `same`: all seeds agree."""

    mean: float | None
    low: float | None
    high: float | None
    same: bool
    of: Mapping[str, float]


V = TypeVar("V")


def by_seed(values: Iterable[tuple[int, V]]) -> dict[int, list[V]]:
    groups: dict[int, list[V]] = {}
    for seed, value in values:
        groups.setdefault(seed, []).append(value)
    return dict(sorted(groups.items()))


def ratio_by_seed(
    parts: Iterable[tuple[int, tuple[float, float]]], bounds: tuple[float, float] = AMOUNT_BOUNDS
) -> Estimate:
    """For each seed, one sum by another."""
    sums = {seed: [*map(sum, zip(*some, strict=True))] for seed, some in by_seed(parts).items()}
    return mean_over_seeds({seed: amount / per for seed, (amount, per) in sums.items()}, bounds)


def mean_over_seeds(values: Mapping[int, float], bounds: tuple[float, float]) -> Estimate:
    least, most = bounds
    return _estimate(values, _student_interval([*values.values()]), lambda end: min(max(end, least), most))


def ratio_over_seeds(values: Mapping[int, float]) -> Estimate:
    """Geometric mean of ratios over seeds, with the interval on the scale of logarithms."""
    return _estimate(values, _student_interval([log(value) for value in values.values()]), exp)


def _student_interval(values: Sequence[float]) -> Sequence[float]:
    """The mean and the ends of its interval; of a single value only itself."""
    if len(values) < 2:
        return values
    middle, df = mean(values), len(values) - 1
    spread = sqrt(fsum((value - middle) ** 2 for value in values) / df / len(values))
    by = t_quantile((1 + CONFIDENCE) / 2, df) * spread
    return middle, middle - by, middle + by


def _estimate(values: Mapping[int, float], interval: Iterable[float], scale: Callable[[float], float]) -> Estimate:
    of = {str(seed): round_figure(value) for seed, value in values.items()}
    mean, low, high, *_ = [*(round_figure(scale(each)) for each in interval), None, None, None]
    return {"mean": mean, "low": low, "high": high, "same": len(of) > 1 and len({*of.values()}) == 1, "of": of}


def mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


round_figure = partial(round_decimals, digits=FIGURE_DIGITS)

WASTED = (BLOCKED, DELAYED, IDLE)  # what an iteration is spent on to no effect
NEAR = 1.3  # a checkpoint nearer to the last, as a ratio, says nothing new
COSTS = ("iterations", "calls")


def scenario_figures(searches: Sequence[SearchFigures]) -> dict[str, Any]:
    solved = {seed: sum(some) for seed, some in by_seed((each.seed, bool(each.proof)) for each in searches).items()}
    proofs = [(each.seed, each.proof) for each in searches if each.proof]
    # none if a seed has no proof: leaving that seed out would flatter
    for_proofs = searches if all(solved.values()) else ()
    return {
        "searches": len(searches),
        "outcomes": {what: sum(each.outcome == what for each in searches) for what in OUTCOMES},
        "solved": {str(seed): number for seed, number in solved.items()},
        "share": ratio_by_seed(((each.seed, (bool(each.proof), 1)) for each in searches), SHARE_BOUNDS),
        # of proofs alone, which flatters a scenario that solves only easy goals
        "to_proof": {
            what: {
                "median": _median([proof[what] for _, proof in proofs]),
                "mean": ratio_by_seed((seed, (proof[what], 1)) for seed, proof in proofs),
            }
            for what in COSTS
        },
        "spent": {what: ratio_by_seed((each.seed, (getattr(each, what), 1)) for each in searches) for what in COSTS},
        "calls_per_proof": ratio_by_seed((each.seed, (each.calls, bool(each.proof))) for each in for_proofs),
        "iterations": {
            "all": sum(each.iterations for each in searches),
            "nothing": _iteration_share(searches, *WASTED),
            "idle": _iteration_share(searches, IDLE),
            "reasons": {reason: _iteration_share(searches, reason) for reason in REASONS},
        },
        "wrong": [
            {"goal": each.goal, "seed": each.seed, "outcome": UNVERIFIED, "error": each.error}
            for each in searches
            if each.outcome == UNVERIFIED
        ],
    }


def _median(values: Iterable[int]) -> float | None:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else None


def _iteration_share(searches: Iterable[SearchFigures], *uses: str) -> Estimate:
    """Uses of iterations, as a share of all."""
    spent = ((each, {**each.reasons, IDLE: each.idle}) for each in searches if each.iterations)
    parts = ((each.seed, (sum(by.get(use, 0) for use in uses), each.iterations)) for each, by in spent)
    return ratio_by_seed(parts, SHARE_BOUNDS)


def solved_within(searches: Mapping[str, Sequence[SearchFigures]]) -> dict[str, Any]:
    """The share of all searches of a scenario, of whatever seed, that had a proof after so many calls.

    `steps`: where it grows, and to what.  `at`: some numbers of calls at which there are intervals."""
    times = {
        name: [(each.seed, each.proof["calls"] if each.proof else inf) for each in some]
        for name, some in searches.items()
    }
    first = min((calls for some in times.values() for _, calls in some), default=inf)
    at = _checkpoints(int(first), max(each.calls for some in searches.values() for each in some)) if first < inf else []
    shares = {
        name: [ratio_by_seed(((seed, (needed <= calls, 1)) for seed, needed in some), SHARE_BOUNDS) for calls in at]
        for name, some in times.items()
    }
    return {"at": at, "shares": shares, "steps": {name: _solved_steps(some) for name, some in times.items()}}


def _checkpoints(least: int, most: int) -> list[int]:
    """Checkpoints: of 1, 3, 10, 30 and so on those between `least` and `most`, with the last one before; and `most`."""
    every = [first * 10**power for power in range(len(str(most))) for first in (1, 3)]
    below = [each for each in every if NEAR * each <= most]
    begun = max((each for each in below if each <= least), default=least)
    return [*(each for each in below if each >= begun), most]


def _solved_steps(times: Sequence[tuple[int, float]]) -> list[list[float]]:
    counts = sorted(Counter(calls for _, calls in times if calls < inf).items())
    totals = accumulate(number for _, number in counts)
    return [[calls, round_figure(total / len(times))] for (calls, _), total in zip(counts, totals, strict=True)]
