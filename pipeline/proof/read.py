"""YAML -> ProofSpec: the keys of `kind: proof` and what each may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from pipeline.declared import choice, flag
from pipeline.proof.bandits import BANDITS
from pipeline.proof.read_strategies import listed, of_profile
from pipeline.proof.settings import LEDGER, LeanKeys, Pace, ProofSpec, Search
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
BACKENDS = ("wasm", "native", "leandojo")
MOST_PROCESSES, MOST_AT_ONCE, MOST_LEVELS, MOST_SAMPLES = 256, 1000, 12, 1000
LEAST_MEMORY = 256  # megabytes; no Lean fits into less

Keys = dict[str, Item]
T = TypeVar("T")


def read(item: Item, name: str) -> ProofSpec:
    top = item.fields("spec", KEYS, NEEDED)
    profile = top["profile"].count("profile", 0) if "profile" in top else None
    if "strategies" in top and profile is not None:
        top["profile"].wrong("profile: it stands for strategies, and `strategies:` is there too; keep one of them")
    if "strategies" not in top and profile is None:
        item.wrong(f"spec: {HOW}")
    budgets, ways = listed(top["strategies"]) if profile is None else of_profile(profile, top["profile"])
    search = _search(top, budgets)
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
        ways=ways,
    )


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
