"""The strategies of a spec: their budgets, and of those that are more than a worker's name, what they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipeline.declared import checked_name
from pipeline.errors import SpecError, clipped, instead
from pipeline.proof import workers
from pipeline.proof.model import TIMEOUTS
from pipeline.proof.settings import Way
from pipeline.proof.trials import CACHE
from pipeline.proof.workers import BUILT, WORKERS, demand
from pipeline.spec import Item
from pipeline.tactics.moves import FAMILIES

STRATEGY_KEYS = ("timeout", "worker", "families")


class Strategies(NamedTuple):
    """`budgets` in the order of the spec; `ways` of those that are not simply the worker of their name."""

    budgets: dict[str, float]
    ways: dict[str, Way]


def of_profile(number: int, item: Item) -> Strategies:
    built, lacking = workers.of_profile(number)
    for name in lacking:
        _demand(item, name, f"profile: {number}")
    return Strategies({name: TIMEOUTS[name] for name in built}, {})


def listed(item: Item) -> Strategies:
    """Every one is there to be run, or nothing is."""
    pairs = item.pairs("strategies") if item.is_map else _names(item)
    found = Strategies({}, {})
    for name, each in pairs:
        if name in found.budgets:
            each.wrong(f"strategies: '{name}' is given twice")
        found.budgets[name], way = _with_keys(name, each) if item.is_map and not each.is_null else _plain(name, each)
        if way != Way(name):
            found.ways[name] = way
    if not found.budgets:
        item.wrong(f"strategies: there is none; name one of: {', '.join(BUILT)}")
    return found


def _names(item: Item) -> Iterator[tuple[str, Item]]:
    yield from ((each.text("strategies"), each) for each in item.items("strategies"))


def _plain(name: str, item: Item) -> tuple[float, Way]:
    _demand(item, name, "strategies")
    return TIMEOUTS[name], Way(name)


def _with_keys(name: str, item: Item) -> tuple[float, Way]:
    what = f"strategy {clipped(name)}"
    keys = item.fields(what, STRATEGY_KEYS)
    worker = keys["worker"].text(f"{what}: worker") if "worker" in keys else name
    if "worker" in keys:
        _demand(keys["worker"], worker, what)
        _own_name(name, worker, item)
    else:
        _demand(item, name, what, "; or say with `worker:` whose strategy it is")
    timeout = keys["timeout"].seconds(f"{what}: timeout") if "timeout" in keys else TIMEOUTS[worker]
    return timeout, Way(worker, _families(keys["families"], f"{what}: families") if "families" in keys else ())


def _own_name(name: str, worker: str, item: Item) -> None:
    """What is called like a worker is done by that one; `cache` is what the search itself tries first."""
    checked_name(name, item, "strategies")
    if name == CACHE or (name in WORKERS and name != worker):
        item.wrong(f"strategies: '{name}' is taken; give what {worker} does here another name")


def _families(item: Item, what: str) -> tuple[str, ...]:
    """In an order of their own, so that it does not matter how they are listed; all of them are as good as none."""
    named = [(each.text(what), each) for each in item.items(what)]
    for n, (name, each) in enumerate(named):
        if name not in FAMILIES:
            each.wrong(f"{what}: '{clipped(name)}' is unknown{instead(name, FAMILIES)}")
        if name in dict(named[:n]):
            each.wrong(f"{what}: '{name}' is given twice")
    if not named:
        item.wrong(f"{what}: there is none; without this key all are used")
    found = tuple(each for each in FAMILIES if each in dict(named))
    return found if len(found) < len(FAMILIES) else ()


def _demand(item: Item, name: str, what: str, more: str = "") -> None:
    """There is such a worker, and it can be run."""
    try:
        demand(name)
    except SpecError as error:
        item.wrong(f"{what}: {error}{more}")
