"""YAML -> scenarios: each a mode and what belongs to it, or one, told at the top of the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from pipeline.declared import checked_name
from pipeline.errors import clipped
from pipeline.mcts.options import GROUPS, KEYS, OPTIONS, keys_of, spoken
from pipeline.mcts.scenarios import Words, scenario
from pipeline.mcts.settings import Scenario
from pipeline.spec import Item

MOST_SCENARIOS = 1000
LONGEST_NAME = 60  # files are called after it and its goal

Keys = Mapping[str, Item]


def read(item: Item, top: Keys) -> tuple[Scenario, ...]:
    own = {key: value for key, value in top.items() if key in KEYS}
    if "scenarios" not in top:
        if "mode" not in top:
            item.wrong("spec: give it `mode: centralized`, or `mode: distributed`, or `scenarios:` with a mode each")
        return (_scenario(top["mode"].text("mode"), item, own, ""),)
    for key, value in own.items():
        value.wrong(f"{key}: each scenario says it for itself, and `scenarios:` is there; put it there")
    return tuple(_listed(top["scenarios"]))


def _listed(item: Item) -> Iterator[Scenario]:
    pairs = [*item.pairs("scenarios")]
    if not 0 < len(pairs) <= MOST_SCENARIOS:
        item.wrong(f"scenarios: expected from 1 to {MOST_SCENARIOS}, found {len(pairs)}")
    for name, each in pairs:
        checked_name(name, each, "scenarios")
        if len(name) > LONGEST_NAME:
            each.wrong(f"scenarios: a name has up to {LONGEST_NAME} characters, '{clipped(name)}' has {len(name)}")
        yield _scenario(name, each, each.fields(f"scenario {name}", KEYS), f"scenario {name}: ")


def _scenario(name: str, where: Item, keys: Keys, before: str) -> Scenario:
    items = dict(_flat(keys, before))
    values: dict[str, Any] = {key: OPTIONS[key].read(item, before + spoken(key)) for key, item in items.items()}

    def wrong(key: str, what: str) -> NoReturn:
        items.get(key, where).wrong(before + what)

    return scenario(name, values, Words(wrong, spoken))


def _flat(keys: Keys, before: str) -> Iterator[tuple[str, Item]]:
    for key, item in keys.items():
        if key in GROUPS:
            inner = item.fields(before + key, keys_of(key))
            if not inner:
                item.wrong(f"{before}{key}: it says nothing; leave it out")
            yield from ((f"{key}.{name}", each) for name, each in inner.items())
        else:
            yield key, item
