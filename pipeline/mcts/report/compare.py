"""Compare scenarios: figures, difference to the first, robustness to blocked goals.

Made from the records of searches alone, so that it is the same however often and in which order it is made.
Against the first: goal by goal and seed by seed. A robustness line holds scenarios that differ in nothing but the
fraction of goals that is blocked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import exp, log
from typing import Any, NamedTuple

from pipeline.core.text import join_names, plural
from pipeline.mcts.report.figures import (
    CONFIDENCE,
    DIFFERENCE_BOUNDS,
    REFUSED,
    UNVERIFIED,
    Record,
    counted_searches,
    is_solved,
    mean,
    mean_over_seeds,
    pair_key,
    ratio_over_seeds,
    scenario_figures,
    solved_within,
)
from pipeline.mcts.search.agents import Block, Delay, ReservationRules
from pipeline.mcts.search.journal import DISTRIBUTED


class SearchPair(NamedTuple):
    """Searches of one goal with one seed under two scenarios."""

    here: Record
    there: Record

    @property
    def solved(self) -> tuple[bool, bool]:
        return is_solved(self.here), is_solved(self.there)

    def key_record(self) -> dict[str, Any]:
        return {"goal": self.here["goal"], "seed": self.here["seed"]}


def compare_pair(here: Sequence[Record], there: Sequence[Record]) -> dict[str, Any]:
    """Compare two scenarios: a difference above 0 and a ratio of calls below 1 speak for `here`."""
    others = {pair_key(each): each for each in there}
    pairs = [SearchPair(each, others[pair_key(each)]) for each in here if pair_key(each) in others]
    both = [each for each in pairs if all(each.solved)]
    return {
        "pairs": len(pairs),
        "both": len(both),
        "neither": sum(not any(each.solved) for each in pairs),
        "only_here": [each.key_record() for each in pairs if each.solved == (True, False)],
        "only_there": [each.key_record() for each in pairs if each.solved == (False, True)],
        "difference": mean_over_seeds(
            {seed: _share_difference(some) for seed, some in _pairs_by_seed(pairs).items()}, DIFFERENCE_BOUNDS
        ),
        "calls_ratio": ratio_over_seeds({seed: _calls_ratio(some) for seed, some in _pairs_by_seed(both).items()}),
    }


def _pairs_by_seed(pairs: Sequence[SearchPair]) -> dict[int, list[SearchPair]]:
    seeds = sorted({each.here["seed"] for each in pairs})
    return {seed: [each for each in pairs if each.here["seed"] == seed] for seed in seeds}


def _share_difference(pairs: Sequence[SearchPair]) -> float:
    return mean([here - there for here, there in (each.solved for each in pairs)])


def _calls_ratio(pairs: Sequence[SearchPair]) -> float:
    """The geometric mean over goals."""
    return exp(mean([log(each.here["to_proof"]["calls"] / each.there["to_proof"]["calls"]) for each in pairs]))


Settings = Mapping[str, Any]

OWN_SEED = {"seed": None}  # each search has another
_NUMBER_BEGUN = re.compile(r"[-_ ]*\d*\.?$")


def robustness_lines(scenarios: Mapping[str, Settings]) -> dict[str, list[tuple[float, str]]]:
    """Fractions and scenarios on each line; a line has two points or more."""
    groups: list[tuple[Settings, list[str]]] = []
    for name, settings in scenarios.items():
        if blocked_fraction(settings):
            _join_group(groups, _beside_fraction(settings), name)
    found = [(names, _unblocked_scenarios(scenarios, names[0]) + names) for _, names in groups]
    found = [(names, on_it) for names, on_it in found if len({blocked_fraction(scenarios[name]) for name in on_it}) > 1]
    titles = _line_titles([names for names, _ in found])
    placed = [sorted((blocked_fraction(scenarios[name]), name) for name in on_it) for _, on_it in found]
    return dict(zip(titles, placed, strict=True))


def blocked_fraction(settings: Settings) -> float:
    return float(_with_defaults(settings)["block"]["fraction"])


def _join_group(groups: list[tuple[Settings, list[str]]], rest: Settings, name: str) -> None:
    for other, names in groups:
        if other == rest:
            names.append(name)
            return
    groups.append((rest, [name]))


def _with_defaults(settings: Settings) -> dict[str, Any]:
    """Settings with all defaults filled in; a delay that never comes is none."""
    steering = ReservationRules._field_defaults if settings["mode"] == DISTRIBUTED else {}
    block = {**Block()._asdict(), **OWN_SEED, **settings.get("block", {})}
    none = {**Delay()._asdict(), **OWN_SEED}
    delay = {**none, **settings.get("delay", {})}
    between = {"block": block, "delay": delay if delay["prob"] else none}
    return {**steering, "reroute": 0, **settings, **between}


def _beside_fraction(settings: Settings) -> Settings:
    whole = _with_defaults(settings)
    return {**whole, "block": {**whole["block"], "fraction": None}}


def _unblocked_scenarios(scenarios: Mapping[str, Settings], name: str) -> list[str]:
    """Scenarios without blocks that differ in nothing else: how goals would be blocked makes no difference there."""
    return [
        other
        for other, settings in scenarios.items()
        if not blocked_fraction(settings) and _beside_blocks(settings) == _beside_blocks(scenarios[name])
    ]


def _beside_blocks(settings: Settings) -> Settings:
    return {**_with_defaults(settings), "block": None, "reroute": None}


def _line_titles(lines: Sequence[Sequence[str]]) -> list[str]:
    """Titles: the common start of a line's names, or the first name where that is empty or not unique."""
    begun = [_common_start(names) for names in lines]
    taken = {*filter(lambda title: begun.count(title) > 1, begun), *(names[0] for names in lines), ""}
    return [names[0] if title in taken else title for title, names in zip(begun, lines, strict=True)]


def _common_start(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return _NUMBER_BEGUN.sub("", "".join(letters[0] for letters in same))


MOST_IN_HEADLINE = 10  # scenarios in a line


class ComparedRun(NamedTuple):
    """Facts of the run that its searches do not tell.

    `shared`: settings of all, as the spec calls them; `malformed`: rows of the bank that are none, by line."""

    budget: Mapping[str, int | None]
    shared: Mapping[str, Any]
    lean: Mapping[str, str]
    bank: str
    malformed: Sequence[Record] = ()


def comparison_record(
    scenarios: Mapping[str, Settings], searches: Sequence[Record], run: ComparedRun
) -> dict[str, Any]:
    """The record comparison.json.  There is a search for each goal, scenario and seed."""
    found: dict[str, list[Record]] = {name: [] for name in scenarios}
    for each in counted_searches(searches):
        found[each["scenario"]].append(each)
    figures = {
        name: {"settings": dict(settings), **scenario_figures(found[name])} for name, settings in scenarios.items()
    }
    first = next(iter(scenarios))
    return {
        "goals": sorted({each["goal"] for each in counted_searches(searches)}),
        "seeds": sorted({each["seed"] for each in counted_searches(searches)}),
        "refused": [*_malformed_rows(run), *_refused_rows(searches)],
        "lean": dict(run.lean),
        "bank": run.bank,
        "budget": dict(run.budget),
        "shared": dict(run.shared),
        "confidence": CONFIDENCE,
        "first": first,
        "scenarios": figures,
        "by_goal": _by_goal(found),
        "paired": {name: compare_pair(found[name], found[first]) for name in scenarios if name != first},
        "robustness": _robustness_points(robustness_lines(scenarios), figures),
        "within": solved_within(found),
    }


def comparison_headline(comparison: Record) -> str:
    """The line that a build ends with."""
    goals, seeds, scenarios = (comparison[what] for what in ("goals", "seeds", "scenarios"))
    means = [f"{name} {_mean_solved(each['solved'])}" for name, each in scenarios.items()]
    means[0] += " solved"
    line = f"{plural(len(goals), 'goal')}, {plural(len(seeds), 'seed')}: {join_names(means, MOST_IN_HEADLINE)}"
    wrong = sum(each["outcomes"][UNVERIFIED] for each in scenarios.values())
    return f"{line}; proofs that did not hold: {wrong}" if wrong else line


def _mean_solved(of: Mapping[str, int]) -> str:
    """The mean over seeds."""
    return f"{mean([*of.values()]):.{len(of) > 1:d}f}" if of else "0"


def _by_goal(found: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, list[int]]]:
    """Seeds with which each goal was solved, under each scenario."""
    goals: dict[str, dict[str, list[int]]] = {}
    for scenario, searches in found.items():
        for each in searches:
            seeds = goals.setdefault(each["goal"], {name: [] for name in found})[scenario]
            seeds += [each["seed"]] * is_solved(each)
    return dict(sorted(goals.items()))


def _malformed_rows(run: ComparedRun) -> list[dict[str, str]]:
    return [{"goal": each["id"] or f"line {each['line']}", "error": each["why"]} for each in run.malformed]


def _refused_rows(searches: Sequence[Record]) -> list[dict[str, str]]:
    refused = {(each["goal"], each["error"]) for each in searches if each["status"] == REFUSED}
    return [{"goal": goal, "error": error} for goal, error in sorted(refused)]


def _robustness_points(
    along: Mapping[str, list[tuple[float, str]]], figures: Mapping[str, Record]
) -> dict[str, list[Any]]:
    return {
        name: [
            {"fraction": at, "scenario": one, "share": figures[one]["share"], "calls": figures[one]["spent"]["calls"]}
            for at, one in points
        ]
        for name, points in along.items()
    }
