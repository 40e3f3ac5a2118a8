"""The key `cascade:` of a tree spec: which ideas are measured on all blocks."""

from __future__ import annotations

from pipeline.spec import Item
from pipeline.tree.model import Cascade, Sweep

CASCADE_KEYS = ("blocks", "keep")
FEWEST = 2
MOST_KEPT = 50_000


def cascade(item: Item, sweep: Sweep, paired: bool) -> Cascade:
    keys = item.fields("cascade", CASCADE_KEYS, CASCADE_KEYS)
    if not paired:
        item.wrong("cascade: it needs `score: method: paired`: what is stopped early must still count among the ideas")
    if sweep.blocks is None or sweep.blocks.ids is None:
        item.wrong(
            "cascade: say in `sweep: blocks:` which blocks there are, so that the first of them can be asked for"
        )
    if "blocks" not in sweep.command.uses:
        item.wrong("cascade: the sweep must be told what to measure: name {blocks} in `sweep: run:`")
    count, first = len(sweep.blocks.ids), keys["blocks"].count("cascade: blocks", 1)
    if first < FEWEST:
        keys["blocks"].wrong(
            f"cascade: blocks: {FEWEST} is least: one block does not show the noise of an idea, "
            "without which nothing is told of the blocks that it lacks"
        )
    if first >= count:
        keys["blocks"].wrong(f"cascade: blocks: {first} of {count} blocks leave nothing to save; use fewer")
    return Cascade(first, keys["keep"].count("cascade: keep", 1, MOST_KEPT))
