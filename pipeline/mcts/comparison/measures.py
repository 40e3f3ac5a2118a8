"""The figures of one scenario, and how much of the goals each scenario solves within so many calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from pipeline.mcts.comparison.intervals import AMOUNT, SHARE, Estimate, mean, median, over_seeds, rounded
from pipeline.mcts.comparison.searches import (
    DEAD,
    IDLE,
    OPEN,
    REASONS,
    SOLVED,
    UNVERIFIED,
    Record,
    by_seed,
    outcome,
    solved,
    spent_on,
)
from pipeline.mcts.trace import BLOCKED, DELAYED

OUTCOMES = (SOLVED, OPEN, DEAD, UNVERIFIED)
NOTHING = (BLOCKED, DELAYED, IDLE)  # what an iteration is spent on to no effect
NEAR = 1.3  # what is nearer to the most calls, as a ratio, says nothing new
BOTH = ("iterations", "calls")

Searches = Sequence[Record]


def measured(found: Searches) -> dict[str, Any]:
    return {
        "searches": len(found),
        "outcomes": {what: sum(outcome(each) == what for each in found) for what in OUTCOMES},
        "solved": {str(seed): sum(map(solved, some)) for seed, some in by_seed(found).items()},
        "share": _over_seeds(found, lambda some: mean([solved(each) for each in some]), SHARE),
        "to_proof": {what: _to_proof(found, what) for what in BOTH},
        "spent": {what: _spent(found, what) for what in BOTH},
        "calls_per_proof": _calls_per_proof(found),
        "iterations": _iterations(found),
        "wrong": [_wrong(each) for each in found if outcome(each) == UNVERIFIED],
    }


def within(found: Mapping[str, Searches]) -> dict[str, Any]:
    """The share of all searches of a scenario, of whatever seed, that had a proof after so many calls.

    `steps`: where it grows, and to what.  `at`: some numbers of calls at which there are intervals."""
    proofs = [each["to_proof"]["calls"] for some in found.values() for each in some if solved(each)]
    at = _checkpoints(min(proofs), max(each["calls"] for some in found.values() for each in some)) if proofs else []
    shares = {name: [_within(some, calls) for calls in at] for name, some in found.items()}
    return {"at": at, "shares": shares, "steps": {name: _steps(some) for name, some in found.items()}}


def _over_seeds(found: Searches, figure: Callable[[Searches], float], bounds: tuple[float, float] = AMOUNT) -> Estimate:
    return over_seeds({seed: figure(some) for seed, some in by_seed(found).items()}, bounds)


def _to_proof(found: Searches, what: str) -> dict[str, Any]:
    """Of what was solved alone, which flatters a scenario that solves only what is easy."""
    proved = [each for each in found if solved(each)]
    middle = median([each["to_proof"][what] for each in proved])
    return {"median": middle, "mean": _over_seeds(proved, lambda some: mean([each["to_proof"][what] for each in some]))}


def _spent(found: Searches, what: str) -> Estimate:
    """For a goal, solved or not."""
    return _over_seeds(found, lambda some: mean([each[what] for each in some]))


def _calls_per_proof(found: Searches) -> Estimate:
    """All calls of a seed for each of its proofs; none if a seed has no proof: leaving that seed out would flatter."""
    if not all(any(map(solved, some)) for some in by_seed(found).values()):
        return over_seeds({}, AMOUNT)
    return _over_seeds(found, lambda some: sum(each["calls"] for each in some) / sum(map(solved, some)))


def _iterations(found: Searches) -> dict[str, Any]:
    """What they were spent on, as shares of all."""
    return {
        "all": sum(each["iterations"] for each in found),
        "nothing": _part(found, NOTHING),
        "idle": _part(found, (IDLE,)),
        "reasons": {reason: _part(found, (reason,)) for reason in REASONS},
    }


def _part(found: Searches, whats: Sequence[str]) -> Estimate:
    def share(some: Searches) -> float:
        spent = sum(spent_on(each, what) for each in some for what in whats)
        return float(spent / sum(each["iterations"] for each in some))

    return _over_seeds([each for each in found if each["iterations"]], share, SHARE)


def _wrong(search: Record) -> dict[str, Any]:
    return {"goal": search["goal"], "seed": search["seed"], "outcome": outcome(search), "error": search["error"]}


def _checkpoints(least: int, most: int) -> list[int]:
    """`most`, and of 1, 3, 10, 30 and so on what is below it, from the last that is not above `least`."""
    every = [first * 10**power for power in range(len(str(most))) for first in (1, 3)]
    below = [each for each in every if NEAR * each <= most]
    begun = max((each for each in below if each <= least), default=least)
    return [*(each for each in below if each >= begun), most]


def _within(found: Searches, calls: int) -> Estimate:
    return _over_seeds(
        found, lambda some: mean([solved(each) and each["to_proof"]["calls"] <= calls for each in some]), SHARE
    )


def _steps(found: Searches) -> list[list[float]]:
    times = sorted(Counter(each["to_proof"]["calls"] for each in found if solved(each)).items())
    totals = accumulate(number for _, number in times)
    return [[calls, rounded(total / len(found))] for (calls, _), total in zip(times, totals, strict=True)]
