"""YAML -> ProofSpec: the keys of `kind: proof`, its strategies, and what each may hold.

A strategy is a worker's name with a budget, or has keys of its own: `timeout`, `worker`, `families`. `profile:` stands
for a list of strategies. Every worker named must be built, or the spec is refused with its line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipeline.banks.read import read_between, read_count, read_key, read_lean, read_path, read_share
from pipeline.errors import SpecError, cut_text, did_you_mean
from pipeline.goals.proving import DEFAULT_LEDGER
from pipeline.proof.schedule.bandits import BANDITS
from pipeline.proof.schedule.records import CACHE, TIMEOUTS
from pipeline.proof.spec.model import Pace, ProofSpec, SearchSettings, StrategyWorker
from pipeline.proof.workers import table
from pipeline.proof.workers.table import BUILT_WORKERS, WORKERS, check_worker_built
from pipeline.spec import Item
from pipeline.spec_fields import boolean, checked_name, choice
from pipeline.tactics.moves import FAMILIES

STRATEGY_KEYS = ("timeout", "worker", "families")


class Strategies(NamedTuple):
    """`budgets` in the order of the spec; `ways` of those that are not simply the worker of their name."""

    budgets: dict[str, float]
    strategy_workers: dict[str, StrategyWorker]


def profile_strategies(number: int, item: Item) -> Strategies:
    built, lacking = table.profile_workers(number)
    for name in lacking:
        _check_worker(item, name, f"profile: {number}")
    return Strategies({name: TIMEOUTS[name] for name in built}, {})


def read_strategies(item: Item) -> Strategies:
    """Every one is there to be run, or nothing is."""
    pairs = item.pairs("strategies") if item.is_map else _listed_names(item)
    found = Strategies({}, {})
    for name, each in pairs:
        if name in found.budgets:
            each.wrong(f"strategies: '{name}' is given twice")
        found.budgets[name], way = (
            _keyed_strategy(name, each) if item.is_map and not each.is_null else _bare_strategy(name, each)
        )
        if way != StrategyWorker(name):
            found.strategy_workers[name] = way
    if not found.budgets:
        item.wrong(f"strategies: there is none; name one of: {', '.join(BUILT_WORKERS)}")
    return found


def _listed_names(item: Item) -> Iterator[tuple[str, Item]]:
    yield from ((each.text("strategies"), each) for each in item.items("strategies"))


def _bare_strategy(name: str, item: Item) -> tuple[float, StrategyWorker]:
    _check_worker(item, name, "strategies")
    return TIMEOUTS[name], StrategyWorker(name)


def _keyed_strategy(name: str, item: Item) -> tuple[float, StrategyWorker]:
    what = f"strategy {cut_text(name)}"
    keys = item.fields(what, STRATEGY_KEYS)
    worker = keys["worker"].text(f"{what}: worker") if "worker" in keys else name
    if "worker" in keys:
        _check_worker(keys["worker"], worker, what)
        _check_own_name(name, worker, item)
    else:
        _check_worker(item, name, what, "; or say with `worker:` whose strategy it is")
    timeout = keys["timeout"].seconds(f"{what}: timeout") if "timeout" in keys else TIMEOUTS[worker]
    return timeout, StrategyWorker(
        worker, _read_families(keys["families"], f"{what}: families") if "families" in keys else ()
    )


def _check_own_name(name: str, worker: str, item: Item) -> None:
    """What is called like a worker is done by that one; `cache` is what the search itself tries first."""
    checked_name(name, item, "strategies")
    if name == CACHE or (name in WORKERS and name != worker):
        item.wrong(f"strategies: '{name}' is taken; give what {worker} does here another name")


def _read_families(item: Item, what: str) -> tuple[str, ...]:
    """In an order of their own, so that it does not matter how they are listed; all of them are as good as none."""
    named = [(each.text(what), each) for each in item.items(what)]
    for n, (name, each) in enumerate(named):
        if name not in FAMILIES:
            each.wrong(f"{what}: '{cut_text(name)}' is unknown{did_you_mean(name, FAMILIES)}")
        if name in dict(named[:n]):
            each.wrong(f"{what}: '{name}' is given twice")
    if not named:
        item.wrong(f"{what}: there is none; without this key all are used")
    found = tuple(each for each in FAMILIES if each in dict(named))
    return found if len(found) < len(FAMILIES) else ()


def _check_worker(item: Item, name: str, what: str, more: str = "") -> None:
    """There is such a worker, and it can be run."""
    try:
        check_worker_built(name)
    except SpecError as error:
        item.wrong(f"{what}: {error}{more}")


SEARCH_KEYS = (
    "strategies", "profile", "bandit", "speculation", "levels", "level_factor", "escalate_threshold", "tactic_cache",
    "timeout", "samples", "seed",
)  # fmt: skip
PACE_KEYS = ("max_light", "max_heavy", "cpu_target")
KEYS = ("kind", "store", "bank", "lean", *SEARCH_KEYS, *PACE_KEYS, "pass_at", "ledger")
NEEDED = ("kind", "bank")
STRATEGIES_HINT = "give it `strategies:`, or a `profile:` that stands for some; 0 is micro alone"
MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 1000, 12, 1000

Keys = dict[str, Item]


def read(item: Item, name: str) -> ProofSpec:
    top = item.fields("spec", KEYS, NEEDED)
    profile = top["profile"].count("profile", 0) if "profile" in top else None
    if "strategies" in top and profile is not None:
        top["profile"].wrong("profile: it stands for strategies, and `strategies:` is there too; keep one of them")
    if "strategies" not in top and profile is None:
        item.wrong(f"spec: {STRATEGIES_HINT}")
    budgets, ways = (
        read_strategies(top["strategies"]) if profile is None else profile_strategies(profile, top["profile"])
    )
    search = _search(top, budgets)
    return ProofSpec(
        name=name,
        line=item.line,
        bank=read_path(top["bank"], "bank"),
        lean=read_lean(top),
        search=search,
        pace=_pace(top),
        profile=profile,
        pass_at=_pass_at(top["pass_at"], search.samples) if "pass_at" in top else (1,),
        ledger=read_path(top["ledger"], "ledger") if "ledger" in top else DEFAULT_LEDGER,
        store=read_path(top["store"], "store") if "store" in top else None,
        explicit_keys=frozenset(top),
        strategy_workers=ways,
    )


def _search(top: Keys, strategies: dict[str, float]) -> SearchSettings:
    d = SearchSettings._field_defaults
    return SearchSettings(
        strategies=strategies,
        bandit=choice(top["bandit"], "bandit", BANDITS) if "bandit" in top else d["bandit"],
        speculation=read_count(top, "speculation", 1, d["speculation"], MOST_AT_ONCE),
        levels=read_count(top, "levels", 1, d["levels"], MOST_LEVELS),
        level_factor=read_key(top, "level_factor", _factor, d["level_factor"]),
        escalate_threshold=read_key(top, "escalate_threshold", read_share, d["escalate_threshold"]),
        tactic_cache=read_key(top, "tactic_cache", boolean, d["tactic_cache"]),
        timeout=read_key(top, "timeout", search_timeout, None),
        samples=read_count(top, "samples", 1, d["samples"], MOST_SAMPLES),
        seed=read_count(top, "seed", 0, d["seed"], 2**31),
    )


def _pace(top: Keys) -> Pace:
    d = Pace._field_defaults
    return Pace(
        read_count(top, "max_light", 1, d["max_light"], MOST_AT_ONCE),
        read_count(top, "max_heavy", 1, d["max_heavy"], MOST_AT_ONCE),
        read_key(top, "cpu_target", cpu_target, None),
    )


def cpu_target(item: Item, what: str) -> float | None:
    """A load per CPU; `none` for as fast as it goes."""
    value = item.plain()
    if value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        item.wrong(f"{what}: expected a load per CPU, more than 0 and at most 1, or none, found {item.summary()}")
    return float(value)


def search_timeout(item: Item, what: str) -> float:
    return item.seconds(what)


def _pass_at(item: Item, samples: int) -> tuple[int, ...]:
    """pass@k cannot be estimated from fewer than k samples of each goal."""
    each = item.items("pass_at") if item.is_list else [item]
    found = tuple(one.count("pass_at", 1) for one in each)
    if not found or max(found) > samples:
        item.wrong(f"pass_at: up to {samples}, as many as `samples:` says, found {[*found]}")
    return found


def _factor(item: Item, what: str) -> float:
    return read_between(item, what, 1.0, 1000.0)
