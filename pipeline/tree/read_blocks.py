"""The key `blocks:` of a sweep: what repeats the measurement of a config."""

from __future__ import annotations

import re

from pipeline.declared import choice, number
from pipeline.spec import Item
from pipeline.tree.model import Blocks
from pipeline.tree.sheet import NEEDED
from pipeline.trust.series import MOST

BLOCKS_KEYS = ("ids", "column", "order", "rho")
NO_ORDER, TIME = "none", "time"
ID = re.compile(r"[A-Za-z0-9_.:+-]{1,60}")
MOST_BLOCKS = 10_000
MOST_IN_TIME = 1_000  # their coordinates grow with the square of it


def blocks(item: Item) -> Blocks:
    """A number of blocks or a list of their ids is short for a mapping with `ids`."""
    if not item.is_map or item.is_bare_name:
        return Blocks(_ids(item, "sweep: blocks"))
    keys = item.fields("sweep: blocks", BLOCKS_KEYS)
    ordered = "order" in keys and choice(keys["order"], "sweep: blocks: order", (NO_ORDER, TIME)) == TIME
    ids = _ids(keys["ids"], "sweep: blocks: ids") if "ids" in keys else None
    if ordered and ids and len(ids) > MOST_IN_TIME:
        keys["ids"].wrong(
            f"sweep: blocks: ids: {len(ids)} blocks in the order of time; make them longer, {MOST_IN_TIME} is most"
        )
    if "rho" in keys and not ordered:
        keys["rho"].wrong("sweep: blocks: rho: how alike neighbours are means something with `order: time` only")
    return Blocks(
        ids,
        _column(keys["column"]) if "column" in keys else "block",
        ordered,
        _rho(keys["rho"]) if "rho" in keys else None,
    )


def _ids(item: Item, what: str) -> tuple[str, ...]:
    if not item.is_list:
        return tuple(map(str, range(item.count(what, 1, MOST_BLOCKS))))
    ids: dict[str, None] = {}
    for each in item.items(what):
        name = each.text(what)
        if not ID.fullmatch(name):
            each.wrong(f"{what}: '{name}' cannot be the name of a block; use letters, digits and _ . : + -")
        if name in ids:
            each.wrong(f"{what}: {name} is there twice")
        ids[name] = None
    if not 1 <= len(ids) <= MOST_BLOCKS:
        item.wrong(f"{what}: {len(ids)} blocks; there must be from 1 to {MOST_BLOCKS}")
    return tuple(ids)


def _column(item: Item) -> str:
    name = item.text("sweep: blocks: column")
    if not name or name in NEEDED:
        item.wrong(f"sweep: blocks: column: '{name}' cannot be it; name the column that tells blocks apart")
    return name


def _rho(item: Item) -> float:
    rho = number(item, "sweep: blocks: rho", 0)
    if rho > MOST:
        item.wrong(f"sweep: blocks: rho: must be from 0 to {MOST}; blocks more alike are one: make them longer")
    return rho
