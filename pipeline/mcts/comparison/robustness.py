"""Robustness curves: which scenarios differ in nothing but how large a fraction of goals is blocked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pipeline.mcts.interventions import Block, Delay
from pipeline.mcts.journal import DISTRIBUTED
from pipeline.mcts.steering import Steering

Settings = Mapping[str, Any]

OWN_SEED = {"seed": None}  # each search has another
_NUMBER_BEGUN = re.compile(r"[-_ ]*\d*\.?$")


def lines(scenarios: Mapping[str, Settings]) -> dict[str, list[tuple[float, str]]]:
    """Of each line the fractions and the scenarios that stand there; a line has two points or more."""
    groups: list[tuple[Settings, list[str]]] = []
    for name, settings in scenarios.items():
        if fraction(settings):
            _join(groups, _beside_fraction(settings), name)
    found = [(names, _at_none(scenarios, names[0]) + names) for _, names in groups]
    found = [(names, on_it) for names, on_it in found if len({fraction(scenarios[name]) for name in on_it}) > 1]
    titles = _titles([names for names, _ in found])
    placed = [sorted((fraction(scenarios[name]), name) for name in on_it) for _, on_it in found]
    return dict(zip(titles, placed, strict=True))


def fraction(settings: Settings) -> float:
    return float(_whole(settings)["block"]["fraction"])


def _join(groups: list[tuple[Settings, list[str]]], rest: Settings, name: str) -> None:
    for other, names in groups:
        if other == rest:
            names.append(name)
            return
    groups.append((rest, [name]))


def _whole(settings: Settings) -> dict[str, Any]:
    """With all that is left out; a delay that never comes is none."""
    steering = Steering._field_defaults if settings["mode"] == DISTRIBUTED else {}
    block = {**Block()._asdict(), **OWN_SEED, **settings.get("block", {})}
    none = {**Delay()._asdict(), **OWN_SEED}
    delay = {**none, **settings.get("delay", {})}
    between = {"block": block, "delay": delay if delay["prob"] else none}
    return {**steering, "reroute": 0, **settings, **between}


def _beside_fraction(settings: Settings) -> Settings:
    whole = _whole(settings)
    return {**whole, "block": {**whole["block"], "fraction": None}}


def _at_none(scenarios: Mapping[str, Settings], name: str) -> list[str]:
    """Where nothing is blocked, how, and what is done about it, makes no difference."""
    return [
        other
        for other, settings in scenarios.items()
        if not fraction(settings) and _beside_blocks(settings) == _beside_blocks(scenarios[name])
    ]


def _beside_blocks(settings: Settings) -> Settings:
    return {**_whole(settings), "block": None, "reroute": None}


def _titles(lines: Sequence[Sequence[str]]) -> list[str]:
    """What the names of a line begin with; where that is nothing, or may be taken for another line, its first name."""
    begun = [_begin(names) for names in lines]
    taken = {*filter(lambda title: begun.count(title) > 1, begun), *(names[0] for names in lines), ""}
    return [names[0] if title in taken else title for title, names in zip(begun, lines, strict=True)]


def _begin(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return _NUMBER_BEGUN.sub("", "".join(letters[0] for letters in same))
