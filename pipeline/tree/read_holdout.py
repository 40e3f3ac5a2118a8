"""The key `holdout:` of a tree spec: blocks or configs that the search does not see."""

from __future__ import annotations

from pipeline.errors import instead
from pipeline.spec import Item
from pipeline.tree.model import PER_CONFIG, Holdout, Sweep
from pipeline.tree.read_sweep import paths_by_port
from pipeline.trust.verdicts import FEWEST_BLOCKS

HOLDOUT_KEYS = ("blocks", "configs", "reads")


def holdout(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, Holdout]:
    """With the sweep as the search sees it."""
    keys = item.fields("holdout", HOLDOUT_KEYS)
    if ("blocks" in keys) == ("configs" in keys):
        item.wrong("holdout: name what is held out, either `blocks: [...]` or `configs: [...]`")
    sealed = _reads(keys["reads"], sweep) if "reads" in keys else {}
    if "blocks" in keys:
        left, held = _blocks(keys["blocks"], sweep, paired)
    else:
        left, held = _configs(keys["configs"], sweep)
    return left, held._replace(reads=sealed, line=item.line)


def _reads(item: Item, sweep: Sweep) -> dict[str, tuple[str, ...]]:
    found = paths_by_port(item, "holdout: reads")
    for port in found:
        if port not in sweep.command.reads:
            item.wrong(f"holdout: reads: the sweep reads no '{port}'{instead(port, sweep.command.reads)}")
    return found


def _blocks(item: Item, sweep: Sweep, paired: bool) -> tuple[Sweep, Holdout]:
    blocks = sweep.blocks
    if blocks is None or blocks.ids is None:
        item.wrong("holdout: blocks: say in `sweep: blocks:` which blocks there are")
    if "blocks" not in sweep.command.uses:
        item.wrong("holdout: blocks: the sweep must be told what to measure: name {blocks} in `sweep: run:`")
    names = [(each, each.text("holdout: blocks")) for each in item.items("holdout: blocks")]
    for each, name in names:
        if name not in blocks.ids:
            each.wrong(f"holdout: blocks: '{name}' is none of the blocks{instead(name, blocks.ids)}")
    held = {name for _, name in names}
    left = tuple(name for name in blocks.ids if name not in held)
    if not held or not left:
        item.wrong(
            f"holdout: blocks: {len(held)} of {len(blocks.ids)} blocks; some must be held out, and some searched"
        )
    if paired and len(held) < FEWEST_BLOCKS:
        item.wrong(f"holdout: blocks: {len(held)} can decide nothing; hold out {FEWEST_BLOCKS} or more")
    order = tuple(name for name in blocks.ids if name in held)
    return sweep._replace(blocks=blocks._replace(ids=left)), Holdout(blocks=order)


def _configs(item: Item, sweep: Sweep) -> tuple[Sweep, Holdout]:
    grid = sweep.grid
    if grid is None:
        item.wrong("holdout: configs: say in `sweep: configs:` which configs there are")
    held: set[int] = {each.count("holdout: configs", 0, grid - 1) for each in item.items("holdout: configs")}
    if not held:
        item.wrong("holdout: configs: name the ids of those that are held out")
    if sweep.mode == PER_CONFIG or "configs" in sweep.command.uses:
        left = sweep._replace(held=tuple(sorted(held)))
    elif "limit" in sweep.command.uses and held == {*range(min(held), grid)}:
        left = sweep._replace(limit=min(*held, sweep.limit or grid))
    elif "limit" in sweep.command.uses:
        item.wrong(f"holdout: configs: by {{limit}} only the last ones can be held out, such as [..., {grid - 1}]")
    else:
        item.wrong("holdout: configs: the sweep must be told what to measure: `mode: per_config`, or name {configs}")
    if left.limit == 0 or not left.ids:
        item.wrong("holdout: configs: no config is left to be searched")
    return left, Holdout(configs=tuple(sorted(held)))
