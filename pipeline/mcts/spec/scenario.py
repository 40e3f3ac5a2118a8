"""Keys of a scenario: the table that serves YAML and flags alike, what belongs together, and the reader.

A scenario is a mode and what belongs to it. No mode stands in for the other, and nothing that is given is left without
effect: a key without what it needs is refused. A spec has one scenario at its top, or several under `scenarios:`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from pipeline.banks.read import read_share
from pipeline.errors import cut_text
from pipeline.mcts.search.agents import (
    BLOCK_FIELDS,
    DELAY_FIELDS,
    NEEDED_KEYS,
    STEERING_FIELDS,
    UNOBSERVED,
    VIRTUAL_LOSS,
    Block,
    Delay,
    Interventions,
    Steering,
)
from pipeline.mcts.search.journal import CENTRALIZED, DISTRIBUTED, REAL_TIME, VIRTUAL_TIME
from pipeline.mcts.spec.model import Scenario
from pipeline.spec import Item
from pipeline.spec_fields import boolean, checked_name, choice, number

MODES = (CENTRALIZED, DISTRIBUTED)
RESERVATIONS = (VIRTUAL_LOSS, UNOBSERVED)
MOST_AGENTS, MOST_TURNS, MOST_SEED = 1000, 1_000_000, 2**31
FLAG_PREFIX = "mcts_"

Read = Callable[[Item, str], Any]


class ScenarioOption(NamedTuple):
    """`flag` as it is typed after `--mcts-`; `needs`: keys without which it would mean nothing.

    `inverse`: a switch that can be turned off."""

    read: Read
    flag: str
    value: str
    help: str
    needs: tuple[str, ...] = ()
    inverse: bool = False


def _count_reader(least: int, most: int = MOST_TURNS) -> Read:
    return lambda item, what: item.count(what, least, most)


def _amount(item: Item, what: str) -> float:
    return number(item, what, 0)


# By key; a dot stands between a key and one within it.
OPTIONS: Mapping[str, ScenarioOption] = {
    "mode": ScenarioOption(lambda item, what: choice(item, what, MODES), "mode", "MODE", "centralized or distributed"),
    "agents": ScenarioOption(_count_reader(1, MOST_AGENTS), "agents", "N", "controllers over the one tree"),
    "inflight": ScenarioOption(_count_reader(1), "inflight", "N", "tactics of a goal that may be tried at once"),
    "reservation": ScenarioOption(
        lambda item, what: choice(item, what, RESERVATIONS), "reservation", "NAME", "virtual-loss or unobserved"
    ),
    "virtual_loss": ScenarioOption(_amount, "virtual-loss", "X", "lost visits that a reservation counts as"),
    "depth_bias": ScenarioOption(number, "depth-bias", "X", "added for each step that a goal is from the root"),
    "path_bias": ScenarioOption(number, "path-bias", "X", "added to what the agent's last way went through"),
    "history_cache": ScenarioOption(
        _count_reader(1), "history-cache", "N", "turns after which an agent looks at the tree again"
    ),
    "deterministic_inference": ScenarioOption(
        boolean, "deterministic-inference", "", "answers in virtual time, not as they come", inverse=True
    ),
    "block.fraction": ScenarioOption(
        read_share, "block-fraction", "X", "share of goals that are blocked when first come to"
    ),
    "block.duration": ScenarioOption(
        _count_reader(-1), "block-duration", "N", "iterations for which; -1 for good", ("block.fraction",)
    ),
    "block.seed": ScenarioOption(_count_reader(0, MOST_SEED), "block-seed", "N", "which goals", ("block.fraction",)),
    "block.immovable_fraction": ScenarioOption(
        read_share, "block-immovable-fraction", "X", "share of blocked goals that nothing thaws", ("block.fraction",)
    ),
    "block.unfreeze_after": ScenarioOption(
        _count_reader(0), "unfreeze-after", "N", "hits that thaw a blocked goal; 0 for none", ("block.fraction",)
    ),
    "block.unfreeze_prob": ScenarioOption(
        read_share, "unfreeze-prob", "X", "chance that a hit thaws it", ("block.fraction",)
    ),
    "reroute.blocked": ScenarioOption(
        boolean, "reroute-blocked", "", "turn to other goals", ("block.fraction", "reroute.max")
    ),
    "reroute.max": ScenarioOption(
        _count_reader(1), "reroute-max", "N", "how many, in an iteration", ("block.fraction", "reroute.blocked")
    ),
    "delay.prob": ScenarioOption(
        read_share, "delay-prob", "X", "chance that coming to a goal delays it", ("delay.duration",)
    ),
    "delay.duration": ScenarioOption(_count_reader(0), "delay-duration", "N", "iterations for which", ("delay.prob",)),
    "delay.seed": ScenarioOption(_count_reader(0, MOST_SEED), "delay-seed", "N", "whose chance", ("delay.prob",)),
}
GROUPS = tuple(dict.fromkeys(key.partition(".")[0] for key in OPTIONS if "." in key))
SCENARIO_KEYS = tuple(dict.fromkeys(key.partition(".")[0] for key in OPTIONS))


def group_keys(group: str) -> tuple[str, ...]:
    return tuple(key.partition(".")[2] for key in OPTIONS if key.startswith(f"{group}."))


def spec_word(key: str) -> str:
    """As a message about a spec has it."""
    return key.replace(".", ": ")


def flag_word(key: str) -> str:
    """As a message about the command line has it."""
    return f"--mcts-{OPTIONS[key].flag}"


class Wording(NamedTuple):
    """How to complain: `wrong` about a key, or about the whole where there is none; `named`: what a key is called."""

    wrong: Callable[[str, str], NoReturn]
    key_name: Callable[[str], str]


def make_scenario(name: str, values: Mapping[str, Any], words: Wording) -> Scenario:
    _check_keys(values, words)
    if values["mode"] != DISTRIBUTED:
        return Scenario(name, values["mode"], explicit_keys=values)
    time = VIRTUAL_TIME if values.get("deterministic_inference", True) else REAL_TIME
    block, delay = (
        Block(**_record_fields(values, BLOCK_FIELDS, "block.")),
        Delay(**_record_fields(values, DELAY_FIELDS, "delay.")),
    )
    between = Interventions(block, delay, values.get("reroute.max", 0))
    return Scenario(name, DISTRIBUTED, Steering(**_record_fields(values, STEERING_FIELDS)), between, time, values)


def _record_fields(values: Mapping[str, Any], fields: Mapping[str, str], group: str = "") -> dict[str, Any]:
    return {field: values[group + key] for key, field in fields.items() if group + key in values}


def _check_keys(values: Mapping[str, Any], words: Wording) -> None:
    """No mode stands in for the other, and nothing that is said is left without effect."""
    name = words.key_name
    if "mode" not in values:
        words.wrong("", f"{name('mode')} is missing: centralized or distributed")
    if values["mode"] != DISTRIBUTED:
        for key in (key for key in values if key != "mode"):
            words.wrong(key, f"{name(key)} is for {name('mode')} distributed, and this is centralized; leave it out")
        return
    for key in NEEDED_KEYS:
        if key not in values:
            words.wrong("mode", f"{name('mode')} distributed needs {name(key)}")
    for key in values:
        for other in OPTIONS[key].needs:
            if other not in values:
                words.wrong(key, f"{name(key)} means nothing without {name(other)}; add it, or leave this out")
    _check_values(values, words)


def _check_values(values: Mapping[str, Any], words: Wording) -> None:
    name = words.key_name
    if values.get("reservation") == UNOBSERVED and "virtual_loss" in values:
        words.wrong("virtual_loss", f"{name('virtual_loss')}: with {name('reservation')} unobserved none is counted")
    if not values.get("reroute.blocked", True):
        words.wrong("reroute.blocked", f"{name('reroute.blocked')}: leave it and {name('reroute.max')} out for none")


MOST_SCENARIOS = 1000
LONGEST_NAME = 60  # files are called after it and its goal

Keys = Mapping[str, Item]


def read_scenarios(item: Item, top: Keys) -> tuple[Scenario, ...]:
    own = {key: value for key, value in top.items() if key in SCENARIO_KEYS}
    if "scenarios" not in top:
        if "mode" not in top:
            item.wrong("spec: give it `mode: centralized`, or `mode: distributed`, or `scenarios:` with a mode each")
        return (_read_scenario(top["mode"].text("mode"), item, own, ""),)
    for key, value in own.items():
        value.wrong(f"{key}: each scenario says it for itself, and `scenarios:` is there; put it there")
    return tuple(_read_listed(top["scenarios"]))


def _read_listed(item: Item) -> Iterator[Scenario]:
    pairs = [*item.pairs("scenarios")]
    if not 0 < len(pairs) <= MOST_SCENARIOS:
        item.wrong(f"scenarios: expected from 1 to {MOST_SCENARIOS}, found {len(pairs)}")
    for name, each in pairs:
        checked_name(name, each, "scenarios")
        if len(name) > LONGEST_NAME:
            each.wrong(f"scenarios: a name has up to {LONGEST_NAME} characters, '{cut_text(name)}' has {len(name)}")
        yield _read_scenario(name, each, each.fields(f"scenario {name}", SCENARIO_KEYS), f"scenario {name}: ")


def _read_scenario(name: str, where: Item, keys: Keys, before: str) -> Scenario:
    items = dict(_flat_items(keys, before))
    values: dict[str, Any] = {key: OPTIONS[key].read(item, before + spec_word(key)) for key, item in items.items()}

    def wrong(key: str, what: str) -> NoReturn:
        items.get(key, where).wrong(before + what)

    return make_scenario(name, values, Wording(wrong, spec_word))


def _flat_items(keys: Keys, before: str) -> Iterator[tuple[str, Item]]:
    for key, item in keys.items():
        if key in GROUPS:
            inner = item.fields(before + key, group_keys(key))
            if not inner:
                item.wrong(f"{before}{key}: it says nothing; leave it out")
            yield from ((f"{key}.{name}", each) for name, each in inner.items())
        else:
            yield key, item
