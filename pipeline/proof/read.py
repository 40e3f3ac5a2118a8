"""YAML -> ProofSpec: the keys of `kind: proof` and what each may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from pipeline.declared import choice, flag
from pipeline.errors import SpecError
from pipeline.proof.bandits import BANDITS
from pipeline.proof.model import TIMEOUTS
from pipeline.proof.settings import LEDGER, LeanKeys, Pace, ProofSpec, Search
from pipeline.proof.workers import BUILT, PROFILES, demand
from pipeline.spec import Item

SEARCH = (
    "strategies", "profile", "bandit", "speculation", "levels", "level_factor", "escalate_threshold", "tactic_cache",
    "timeout", "samples", "seed",
)  # fmt: skip
PACE = ("max_light", "max_heavy", "cpu_target")
KEYS = ("kind", "store", "bank", "lean", *SEARCH, *PACE, "pass_at", "ledger")
NEEDED = ("kind", "bank")
HOW = "give it `strategies:`, or a `profile:` that stands for some; 0 is micro alone"
LEAN_KEYS = ("backend", "processes", "memory", "project")
STRATEGY_KEYS = ("timeout",)
BACKENDS = ("wasm", "native", "leandojo")
MOST_PROCESSES, MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 256, 1000, 12, 1000
LEAST_MEMORY = 256  # megabytes; no Lean fits into less

Keys = dict[str, Item]
T = TypeVar("T")


def read(item: Item, name: str) -> ProofSpec:
    top = item.fields("spec", KEYS, NEEDED)
    profile = top["profile"].count("profile", 0) if "profile" in top else None
    if ("strategies" in top) == (profile is not None):
        item.wrong(f"spec: {HOW}")
    search = _search(top, _strategies(top, profile))
    return ProofSpec(
        name=name,
        line=item.line,
        bank=_path(top["bank"], "bank"),
        lean=_lean(top["lean"]) if "lean" in top else LeanKeys(),
        search=search,
        pace=_pace(top),
        profile=profile,
        pass_at=_pass_at(top["pass_at"], search.samples) if "pass_at" in top else (1,),
        ledger=_path(top["ledger"], "ledger") if "ledger" in top else LEDGER,
        store=_path(top["store"], "store") if "store" in top else None,
        given=frozenset(top),
    )


def _strategies(top: Keys, profile: int | None) -> dict[str, float]:
    """As they are listed, or as the profile has them; every one is there to be run, or nothing is."""
    if profile is not None:
        names = PROFILES[min(profile, len(PROFILES) - 1)]
        for name in names:
            _demand(top["profile"], name, f"profile: {profile}")
        return {name: TIMEOUTS[name] for name in names}
    item = top["strategies"]
    pairs = [*item.pairs("strategies")] if item.is_map else _listed(item)
    found = {_strategy(name, each): _budget(name, each) if item.is_map else TIMEOUTS[name] for name, each in pairs}
    if not found:
        item.wrong(f"strategies: there is none; name one of: {', '.join(BUILT)}")
    return found


def _listed(item: Item) -> list[tuple[str, Item]]:
    named = [(each.text("strategies"), each) for each in item.items("strategies")]
    for n, (name, each) in enumerate(named):
        if name in dict(named[:n]):
            each.wrong(f"strategies: '{name}' is given twice")
    return named


def _strategy(name: str, item: Item) -> str:
    _demand(item, name, "strategies")
    return name


def _demand(item: Item, name: str, what: str) -> None:
    """There is such a worker, and it can be run."""
    try:
        demand(name)
    except SpecError as error:
        item.wrong(f"{what}: {error}")


def _budget(name: str, item: Item) -> float:
    if item.is_null:
        return TIMEOUTS[name]
    keys = item.fields(f"strategy {name}", STRATEGY_KEYS)
    return keys["timeout"].seconds(f"strategy {name}: timeout") if "timeout" in keys else TIMEOUTS[name]


def _search(top: Keys, strategies: dict[str, float]) -> Search:
    d = Search._field_defaults
    return Search(
        strategies=strategies,
        bandit=choice(top["bandit"], "bandit", BANDITS) if "bandit" in top else d["bandit"],
        speculation=_count(top, "speculation", 1, d["speculation"], MOST_AT_ONCE),
        levels=_count(top, "levels", 1, d["levels"], MOST_LEVELS),
        level_factor=_read(top, "level_factor", _factor, d["level_factor"]),
        escalate_threshold=_read(top, "escalate_threshold", share, d["escalate_threshold"]),
        tactic_cache=_read(top, "tactic_cache", flag, d["tactic_cache"]),
        timeout=_read(top, "timeout", whole_timeout, None),
        samples=_count(top, "samples", 1, d["samples"], MOST_SAMPLES),
        seed=_count(top, "seed", 0, d["seed"], 2**31),
    )


def _pace(top: Keys) -> Pace:
    d = Pace._field_defaults
    return Pace(
        _count(top, "max_light", 1, d["max_light"], MOST_AT_ONCE),
        _count(top, "max_heavy", 1, d["max_heavy"], MOST_AT_ONCE),
        _read(top, "cpu_target", cpu_target, None),
    )


def cpu_target(item: Item, what: str) -> float | None:
    """A load per CPU; `none` for as fast as it goes."""
    value = item.plain()
    if value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        item.wrong(f"{what}: expected a load per CPU, more than 0 and at most 1, or none, found {item.found()}")
    return float(value)


def share(item: Item, what: str) -> float:
    return _between(item, what, 0.0, 1.0)


def whole_timeout(item: Item, what: str) -> float:
    return item.seconds(what)


def _lean(item: Item) -> LeanKeys:
    keys, d = item.fields("lean", LEAN_KEYS), LeanKeys()
    backend = choice(keys["backend"], "lean: backend", BACKENDS) if "backend" in keys else d.backend
    if "project" in keys and backend == "wasm":
        keys["project"].wrong("lean: project: the backend wasm has the core library alone; use native or leandojo")
    if "project" not in keys and backend == "leandojo":
        item.wrong("lean: backend leandojo proves in a repository; name it with `project:`")
    return LeanKeys(
        backend,
        _count(keys, "processes", 1, d.processes, MOST_PROCESSES, "lean: processes"),
        _count(keys, "memory", LEAST_MEMORY, d.memory, None, "lean: memory"),
        _folder(keys["project"]) if "project" in keys else "",
    )


def _pass_at(item: Item, samples: int) -> tuple[int, ...]:
    """pass@k cannot be estimated from fewer than k samples of each goal."""
    each = item.items("pass_at") if item.is_list else [item]
    found = tuple(one.count("pass_at", 1) for one in each)
    if not found or max(found) > samples:
        item.wrong(f"pass_at: up to {samples}, as many as `samples:` says, found {[*found]}")
    return found


def _folder(item: Item) -> str:
    path = _path(item, "lean: project")
    if not os.path.isdir(path):
        item.wrong(f"lean: project: {path} is no folder; name the one with the project's lakefile")
    return path


def _path(item: Item, what: str) -> str:
    return os.path.normpath(item.text(what) or item.wrong(f"{what}: expected a path, found nothing"))


def _count(top: Keys, key: str, least: int, default: int, most: int | None = None, what: str = "") -> int:
    return top[key].count(what or key, least, most) if key in top else default


def _factor(item: Item, what: str) -> float:
    return _between(item, what, 1.0, 1000.0)


def _between(item: Item, what: str, least: float, most: float) -> float:
    value = item.plain()
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        item.wrong(f"{what}: expected a number from {least:g} to {most:g}, found {item.found()}")
    return float(value)


def _read(top: Keys, key: str, read: Callable[[Item, str], T], default: T) -> T:
    return read(top[key], key) if key in top else default
