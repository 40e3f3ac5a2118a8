"""Values of options -> a scenario: what belongs to which mode, what is needed, what comes in pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

from pipeline.mcts.interventions import Block, Delay, Interventions
from pipeline.mcts.journal import DISTRIBUTED, REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.keys import BLOCK, DELAY, NEEDED, STEERING
from pipeline.mcts.options import OPTIONS
from pipeline.mcts.settings import Scenario
from pipeline.mcts.steering import UNOBSERVED, Steering


class Words(NamedTuple):
    """How to complain: `wrong` about a key, or about the whole where there is none; `named`: what a key is called."""

    wrong: Callable[[str, str], NoReturn]
    named: Callable[[str], str]


def scenario(name: str, values: Mapping[str, Any], words: Words) -> Scenario:
    _check(values, words)
    if values["mode"] != DISTRIBUTED:
        return Scenario(name, values["mode"], given=values)
    time = VIRTUAL_TIME if values.get("deterministic_inference", True) else REAL_TIME
    block, delay = Block(**_fields(values, BLOCK, "block.")), Delay(**_fields(values, DELAY, "delay."))
    between = Interventions(block, delay, values.get("reroute.max", 0))
    return Scenario(name, DISTRIBUTED, Steering(**_fields(values, STEERING)), between, time, values)


def _fields(values: Mapping[str, Any], fields: Mapping[str, str], group: str = "") -> dict[str, Any]:
    return {field: values[group + key] for key, field in fields.items() if group + key in values}


def _check(values: Mapping[str, Any], words: Words) -> None:
    """No mode stands in for the other, and nothing that is said is left without effect."""
    name = words.named
    if "mode" not in values:
        words.wrong("", f"{name('mode')} is missing: centralized or distributed")
    if values["mode"] != DISTRIBUTED:
        for key in (key for key in values if key != "mode"):
            words.wrong(key, f"{name(key)} is for {name('mode')} distributed, and this is centralized; leave it out")
        return
    for key in NEEDED:
        if key not in values:
            words.wrong("mode", f"{name('mode')} distributed needs {name(key)}")
    for key in values:
        for other in OPTIONS[key].needs:
            if other not in values:
                words.wrong(key, f"{name(key)} means nothing without {name(other)}; add it, or leave this out")
    _check_values(values, words)


def _check_values(values: Mapping[str, Any], words: Words) -> None:
    name = words.named
    if values.get("reservation") == UNOBSERVED and "virtual_loss" in values:
        words.wrong("virtual_loss", f"{name('virtual_loss')}: with {name('reservation')} unobserved none is counted")
    if not values.get("reroute.blocked", True):
        words.wrong("reroute.blocked", f"{name('reroute.blocked')}: leave it and {name('reroute.max')} out for none")
