"""YAML -> ProofSpec: the keys of `kind: proof` and what each may hold."""

from __future__ import annotations

import os

from pipeline.declared import choice, flag, number
from pipeline.errors import clipped, instead
from pipeline.proof.model import STRATEGIES, TIMEOUTS
from pipeline.proof.settings import LEDGER, LeanKeys, Pace, ProofSpec, Search, of_profile
from pipeline.proof.workers import WORKERS
from pipeline.spec import Item

SEARCH = (
    "strategies", "profile", "bandit", "speculation", "levels", "level_factor", "escalate_threshold", "tactic_cache",
    "timeout", "samples", "seed",
)  # fmt: skip
PACE = ("max_light", "max_heavy", "cpu_target")
KEYS = ("kind", "store", "bank", "lean", *SEARCH, *PACE, "pass_at", "ledger")
NEEDED = ("kind", "bank")
LEAN_KEYS = ("backend", "processes", "memory", "project")
STRATEGY_KEYS = ("timeout",)
BACKENDS = ("wasm", "native", "leandojo")
BANDITS = ("seed", "ucb1", "discounted", "contextual")
DEFAULT_PROFILE = 1
MOST_PROCESSES, MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 256, 1000, 12, 1000
LEAST_MEMORY = 256  # megabytes; no Lean fits into less

Keys = dict[str, Item]


def read(item: Item, name: str) -> ProofSpec:
    top = item.fields("spec", KEYS, NEEDED)
    profile = None if "strategies" in top else _count(top, "profile", 0, DEFAULT_PROFILE)
    search = _search(top, _strategies(item, top, profile))
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


def _strategies(spec: Item, top: Keys, profile: int | None) -> dict[str, float]:
    """As they are listed, or as the profile has them; every one is there to be run, or nothing is."""
    if profile is not None:
        at = top.get("profile", spec)
        for name in of_profile(profile):
            _check_built(at, name, f"profile {profile}")
        return {name: TIMEOUTS[name] for name in of_profile(profile)}
    if "profile" in top:
        top["profile"].wrong("profile: stands for a list of strategies; leave it out, or `strategies:`")
    item = top["strategies"]
    pairs = (
        item.pairs("strategies")
        if item.is_map
        else [(each.text("strategies"), each) for each in item.items("strategies")]
    )
    found = {_strategy(name, each): _budget(name, each) if item.is_map else TIMEOUTS[name] for name, each in pairs}
    if not found:
        item.wrong(f"strategies: there is none; name one of: {', '.join(WORKERS)}")
    return found


def _strategy(name: str, item: Item) -> str:
    if name not in STRATEGIES:
        item.wrong(f"strategies: '{clipped(name)}' is unknown{instead(name, STRATEGIES)}")
    _check_built(item, name, "strategies")
    return name


def _check_built(item: Item, name: str, what: str) -> None:
    if name not in WORKERS:
        item.wrong(f"{what}: '{name}' is not built yet; there is: {', '.join(WORKERS)} (`profile: 0`)")


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
        level_factor=_number(top, "level_factor", 1.0, 1000.0, d["level_factor"]),
        escalate_threshold=_number(top, "escalate_threshold", 0.0, 1.0, d["escalate_threshold"]),
        tactic_cache=flag(top["tactic_cache"], "tactic_cache") if "tactic_cache" in top else d["tactic_cache"],
        timeout=top["timeout"].seconds("timeout") if "timeout" in top else None,
        samples=_count(top, "samples", 1, d["samples"], MOST_SAMPLES),
        seed=_count(top, "seed", 0, d["seed"], 2**31),
    )


def _pace(top: Keys) -> Pace:
    d = Pace._field_defaults
    return Pace(
        _count(top, "max_light", 1, d["max_light"], MOST_AT_ONCE),
        _count(top, "max_heavy", 1, d["max_heavy"], MOST_AT_ONCE),
        _cpu_target(top["cpu_target"]) if "cpu_target" in top else None,
    )


def _cpu_target(item: Item) -> float | None:
    """A load per CPU; `none` for as fast as it goes."""
    if item.plain() == "none":
        return None
    value = number(item, "cpu_target")
    if not 0 < value <= 1:
        item.wrong(f"cpu_target: expected a load from 0 to 1, such as 0.5, or none, found {item.found()}")
    return value


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


def _number(top: Keys, key: str, least: float, most: float, default: float) -> float:
    if key not in top:
        return default
    value = number(top[key], key, least)
    if value > most:
        top[key].wrong(f"{key}: expected a number from {least:g} to {most:g}, found {top[key].found()}")
    return value
