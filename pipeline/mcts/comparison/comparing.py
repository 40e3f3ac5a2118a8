"""What the scenarios of a run came to: each by itself, against the first, and along how much was blocked.

Of the records of searches alone, so that it comes out the same however often and in whatever order it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.core.words import listed, plural
from pipeline.mcts.comparison.intervals import CONFIDENCE, mean
from pipeline.mcts.comparison.measures import measured, within
from pipeline.mcts.comparison.paired import against
from pipeline.mcts.comparison.robustness import Settings, lines
from pipeline.mcts.comparison.searches import UNVERIFIED, Record, counted, solved
from pipeline.mcts.refusing import REFUSED

SHOWN = 10  # scenarios in a line


class Run(NamedTuple):
    """What its searches do not say themselves.  `shared`: by what all are made, as the spec calls it; `malformed`: rows
    of the bank that are none, by line."""

    budget: Mapping[str, int | None]
    shared: Mapping[str, Any]
    lean: Mapping[str, str]
    bank: str
    malformed: Sequence[Record] = ()


def compared(scenarios: Mapping[str, Settings], searches: Sequence[Record], run: Run) -> dict[str, Any]:
    """As it is documented.  There is a search for each goal, scenario and seed."""
    found: dict[str, list[Record]] = {name: [] for name in scenarios}
    for each in counted(searches):
        found[each["scenario"]].append(each)
    told = {name: {"settings": dict(settings), **measured(found[name])} for name, settings in scenarios.items()}
    first = next(iter(scenarios))
    return {
        "goals": sorted({each["goal"] for each in counted(searches)}),
        "seeds": sorted({each["seed"] for each in counted(searches)}),
        "refused": [*_malformed(run), *_refused(searches)],
        "lean": dict(run.lean),
        "bank": run.bank,
        "budget": dict(run.budget),
        "shared": dict(run.shared),
        "confidence": CONFIDENCE,
        "first": first,
        "scenarios": told,
        "by_goal": _by_goal(found),
        "paired": {name: against(found[name], found[first]) for name in scenarios if name != first},
        "robustness": _robustness(lines(scenarios), told),
        "within": within(found),
    }


def headline(comparison: Record) -> str:
    """What a build ends with."""
    goals, seeds, scenarios = (comparison[what] for what in ("goals", "seeds", "scenarios"))
    means = [f"{name} {_number(each['solved'])}" for name, each in scenarios.items()]
    means[0] += " solved"
    told = f"{plural(len(goals), 'goal')}, {plural(len(seeds), 'seed')}: {listed(means, SHOWN)}"
    wrong = sum(each["outcomes"][UNVERIFIED] for each in scenarios.values())
    return f"{told}; proofs that did not hold: {wrong}" if wrong else told


def _number(of: Mapping[str, int]) -> str:
    """The mean over seeds."""
    return f"{mean([*of.values()]):.{len(of) > 1:d}f}" if of else "0"


def _by_goal(found: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, list[int]]]:
    """With which seeds each was solved, under each scenario."""
    goals: dict[str, dict[str, list[int]]] = {}
    for scenario, searches in found.items():
        for each in searches:
            seeds = goals.setdefault(each["goal"], {name: [] for name in found})[scenario]
            seeds += [each["seed"]] * solved(each)
    return dict(sorted(goals.items()))


def _malformed(run: Run) -> list[dict[str, str]]:
    return [{"goal": each["id"] or f"line {each['line']}", "error": each["why"]} for each in run.malformed]


def _refused(searches: Sequence[Record]) -> list[dict[str, str]]:
    refused = {(each["goal"], each["error"]) for each in searches if each["status"] == REFUSED}
    return [{"goal": goal, "error": error} for goal, error in sorted(refused)]


def _robustness(along: Mapping[str, list[tuple[float, str]]], told: Mapping[str, Record]) -> dict[str, list[Any]]:
    return {
        name: [
            {"fraction": at, "scenario": one, "share": told[one]["share"], "calls": told[one]["spent"]["calls"]}
            for at, one in points
        ]
        for name, points in along.items()
    }
