"""Targets of a cascade: what is measured first, who is measured further, and both parts together."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft, Paths
from pipeline.tree.model import Cascade
from pipeline.tree.plan_sweeps import compared, first, measured, rest, swept_tree, whole
from pipeline.tree.slots import ROOT, Place, Slot


def baseline(draft: Draft) -> Iterator[Target]:
    for part in (first, rest):
        yield from measured(draft, ROOT, part(draft, ROOT))
    yield _join(draft, ROOT)


def early(draft: Draft, slot: Slot, cascade: Cascade) -> Iterator[Target]:
    """The first blocks of an idea beside its parent's."""
    part = first(draft, slot)
    yield from measured(draft, slot, part)
    files = part.files(draft, slot)
    reads = {**compared(draft, slot), "sweep": files["sweep"], "csv": files["csv"]}
    pairs, params = part.record(draft, slot, "pairs.json"), {**draft.complete(), "first": cascade.blocks}
    yield draft.target(f"{slot}.early", "pair", reads, {"pairs": pairs}, params)


def cascade(draft: Draft, depth: int, keys: Cascade) -> Target:
    slots = draft.slots(depth)
    reads: dict[str, Paths] = {
        "pairs": [first(draft, slot).record(draft, slot, "pairs.json") for slot in slots],
        "tree": [swept_tree(draft, slot) for slot in slots],
    }
    writes: dict[str, Paths] = {
        "cascade": draft.at.of_depth(depth, "cascade.json"),
        "tree": [rest(draft, slot).tree for slot in slots],
    }
    params = {**draft.weighing(), "first": keys.blocks, "keep": keys.keep, "slots": [*map(str, slots)]}
    return draft.target(f"d{depth}.cascade", "cascade", reads, writes, params)


def late(draft: Draft, slot: Slot) -> Iterator[Target]:
    yield from measured(draft, slot, rest(draft, slot))
    yield _join(draft, slot)


def _join(draft: Draft, where: Slot | Place) -> Target:
    assert draft.spec.cascade is not None
    parts = [part(draft, where).files(draft, where) for part in (first, rest)]
    writes = whole(draft, where).files(draft, where)
    reads = {port: [str(part[port]) for part in parts] for port in writes}
    return draft.target(f"{where}.sweep", "join", reads, writes, {"first": draft.spec.cascade.blocks})
