"""Compare scenarios, from the records of searches alone: figures, difference to the first, robustness to blocks.

Against the first: goal by goal and seed by seed. A robustness line holds scenarios that differ in nothing but the
fraction of goals that is blocked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from math import exp, log
from typing import Any

from pipeline.core.text import join_names, plural
from pipeline.mcts.report.figures import (
    CONFIDENCE,
    DIFFERENCE_BOUNDS,
    REFUSED,
    UNVERIFIED,
    SearchFigures,
    by_seed,
    mean,
    ratio_by_seed,
    ratio_over_seeds,
    scenario_figures,
    solved_within,
)
from pipeline.mcts.search.agents import Block, Delay, ReservationRules
from pipeline.mcts.search.journal import DISTRIBUTED

Settings = Mapping[str, Any]
Record = dict[str, Any]


def comparison_record(
    scenarios: Mapping[str, Settings],
    searches: Sequence[SearchFigures],
    facts: Mapping[str, Any],
    malformed: Sequence[Mapping[str, Any]] = (),
) -> Record:
    """The record comparison.json.  There is a search for each goal, scenario and seed.

    `facts`: of the run, which its searches do not tell; `malformed`: rows of the bank that are none, by line."""
    counted = sorted((each for each in searches if each.status != REFUSED), key=lambda each: (each.goal, each.seed))
    found: dict[str, list[SearchFigures]] = {name: [] for name in scenarios}
    by_goal: dict[str, dict[str, list[int]]] = {each.goal: {name: [] for name in scenarios} for each in counted}
    for each in counted:
        found[each.scenario].append(each)
        by_goal[each.goal][each.scenario] += [each.seed] if each.proof else []
    refused = [(each["id"] or f"line {each['line']}", each["why"]) for each in malformed]
    refused += sorted({(each.goal, each.error) for each in searches if each.status == REFUSED})
    figures = {name: {"settings": settings, **scenario_figures(found[name])} for name, settings in scenarios.items()}
    first = next(iter(scenarios))
    return {
        "goals": [*by_goal],
        "seeds": sorted({each.seed for each in counted}),
        "refused": [{"goal": goal, "error": error} for goal, error in refused],
        **facts,
        "confidence": CONFIDENCE,
        "first": first,
        "scenarios": figures,
        "by_goal": by_goal,
        "paired": {name: compare_pair(found[name], found[first]) for name in scenarios if name != first},
        "robustness": {
            line: [
                {"fraction": at, "scenario": name, "share": each["share"], "calls": each["spent"]["calls"]}
                for at, name, each in ((at, name, figures[name]) for at, name in points)
            ]
            for line, points in robustness_lines(scenarios).items()
        },
        "within": solved_within(found),
    }


MOST_IN_HEADLINE = 10  # scenarios in a line


def comparison_headline(comparison: Mapping[str, Any]) -> str:
    """The line that a build ends with."""
    goals, seeds, scenarios = (comparison[what] for what in ("goals", "seeds", "scenarios"))
    solved = {name: [*each["solved"].values()] for name, each in scenarios.items()}
    means = [f"{name} {mean(some):.{len(some) > 1:d}f}" if some else f"{name} 0" for name, some in solved.items()]
    means[0] += " solved"
    line = f"{plural(len(goals), 'goal')}, {plural(len(seeds), 'seed')}: {join_names(means, MOST_IN_HEADLINE)}"
    wrong = sum(each["outcomes"][UNVERIFIED] for each in scenarios.values())
    return f"{line}; proofs that did not hold: {wrong}" if wrong else line


def compare_pair(here: Sequence[SearchFigures], there: Sequence[SearchFigures]) -> Record:
    """Compare two scenarios: a difference above 0 and a ratio of calls below 1 speak for `here`."""
    others = {(each.goal, each.seed): each.proof for each in there}
    pairs = [(each, others[each.goal, each.seed]) for each in here if (each.goal, each.seed) in others]
    only_here, only_there, ratios = list[Record](), list[Record](), list[tuple[int, float]]()
    for each, other in pairs:
        if each.proof and other:
            ratios.append((each.seed, log(each.proof["calls"] / other["calls"])))
        elif each.proof or other:
            (only_here if each.proof else only_there).append({"goal": each.goal, "seed": each.seed})
    differences = ((each.seed, (bool(each.proof) - bool(other), 1)) for each, other in pairs)
    return {
        "pairs": len(pairs),
        "both": len(ratios),
        "neither": len(pairs) - len(ratios) - len(only_here) - len(only_there),
        "only_here": only_here,
        "only_there": only_there,
        "difference": ratio_by_seed(differences, DIFFERENCE_BOUNDS),
        # the geometric mean over goals
        "calls_ratio": ratio_over_seeds({seed: exp(mean(some)) for seed, some in by_seed(ratios).items()}),
    }


OWN_SEED = {"seed": None}  # each search has another
_NUMBER_BEGUN = re.compile(r"[-_ ]*\d*\.?$")


def robustness_lines(scenarios: Mapping[str, Settings]) -> dict[str, list[tuple[float, str]]]:
    """Fractions and scenarios on each line; a line has two points or more.

    Where nothing is blocked, how goals would be blocked makes no difference: it is on all lines that are alike."""
    whole = {name: _with_defaults(settings) for name, settings in scenarios.items()}
    fractions = {name: float(each["block"].pop("fraction")) for name, each in whole.items()}
    beside = {name: {**each, "block": None, "reroute": None} for name, each in whole.items()}
    groups: dict[str, list[str]] = {}  # by the first of each
    for name in (name for name in scenarios if fractions[name]):
        first = next((first for first in groups if whole[first] == whole[name]), name)
        groups.setdefault(first, []).append(name)
    for first, names in groups.items():
        names += [name for name in scenarios if not fractions[name] and beside[name] == beside[first]]
    lines = [names for names in groups.values() if len({fractions[name] for name in names}) > 1]
    titles = _line_titles([[name for name in names if fractions[name]] for names in lines])
    return {
        title: sorted((fractions[name], name) for name in names) for title, names in zip(titles, lines, strict=True)
    }


def _with_defaults(settings: Settings) -> Record:
    """Settings with all defaults filled in; a delay that never comes is none."""
    steering = ReservationRules._field_defaults if settings["mode"] == DISTRIBUTED else {}
    block = {**Block()._asdict(), **OWN_SEED, **settings.get("block", {})}
    none = {**Delay()._asdict(), **OWN_SEED}
    delay = {**none, **settings.get("delay", {})}
    return {**steering, "reroute": 0, **settings, "block": block, "delay": delay if delay["prob"] else none}


def _line_titles(lines: Sequence[Sequence[str]]) -> list[str]:
    """Titles: the common start of a line's names, or the first name where that is empty or not unique."""
    begun = []
    for names in lines:
        same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
        start = _NUMBER_BEGUN.sub("", "".join(letters[0] for letters in same))
        begun.append(start if len(names) > 1 else names[0])
    taken = {*filter(lambda title: begun.count(title) > 1, begun), *(names[0] for names in lines), ""}
    return [names[0] if title in taken else title for title, names in zip(begun, lines, strict=True)]
