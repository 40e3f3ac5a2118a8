"""Keys that specs of all kinds that prove share: `lean`, paths, counts, shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from pipeline.goals.proving import LeanKeys
from pipeline.spec import Item
from pipeline.spec_fields import choice

LEAN_KEYS = ("backend", "processes", "memory", "project")
BACKENDS = ("wasm", "native", "leandojo")
MOST_PROCESSES = 256
LEAST_MEMORY = 256  # megabytes; no Lean fits into less

T = TypeVar("T")
Keys = Mapping[str, Item]


def read_lean(top: Keys, d: LeanKeys = LeanKeys()) -> LeanKeys:  # noqa: B008
    if "lean" not in top:
        return d
    item = top["lean"]
    keys = item.fields("lean", LEAN_KEYS)
    backend = choice(keys["backend"], "lean: backend", BACKENDS) if "backend" in keys else d.backend
    if "project" in keys and backend == "wasm":
        keys["project"].wrong("lean: project: the backend wasm has the core library alone; use native or leandojo")
    if "project" not in keys and backend == "leandojo":
        item.wrong("lean: backend leandojo proves in a repository; name it with `project:`")
    return LeanKeys(
        backend,
        read_count(keys, "processes", 1, d.processes, MOST_PROCESSES, "lean: processes"),
        read_count(keys, "memory", LEAST_MEMORY, d.memory, None, "lean: memory"),
        _folder(keys["project"]) if "project" in keys else "",
    )


def _folder(item: Item) -> str:
    folder = read_path(item, "lean: project")
    if not os.path.isdir(folder):
        item.wrong(f"lean: project: {folder} is no folder; name the one with the project's lakefile")
    return folder


def read_path(item: Item, what: str) -> str:
    return os.path.normpath(item.text(what) or item.wrong(f"{what}: expected a path, found nothing"))


def read_count(top: Keys, key: str, least: int, default: int, most: int | None = None, what: str = "") -> int:
    return top[key].count(what or key, least, most) if key in top else default


def read_share(item: Item, what: str) -> float:
    return read_between(item, what, 0.0, 1.0)


def read_between(item: Item, what: str, least: float, most: float) -> float:
    value = item.plain()
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        item.wrong(f"{what}: expected a number from {least:g} to {most:g}, found {item.summary()}")
    return float(value)


def read_key(top: Keys, key: str, read: Callable[[Item, str], T], default: T) -> T:
    return read(top[key], key) if key in top else default
