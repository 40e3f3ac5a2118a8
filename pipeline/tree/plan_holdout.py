"""Targets that measure what was held out.  No build of the search has them: they are planned once the seal is open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft
from pipeline.tree.model import Holdout
from pipeline.tree.plan_sweeps import Part, block_ids, config_ids, measured, swept_tree
from pipeline.tree.positions import HOLDOUT
from pipeline.tree.slots import ROOT, Place, Slot


class Final(NamedTuple):
    """The node that the search ended with, and the evaluation that it comes from."""

    place: Place
    source: Slot


def holdout(draft: Draft, held: Holdout, final: Final) -> Iterator[Target]:
    """The start and the final node, by the same command as in the search."""
    parts = {ROOT: _part(draft, held, ROOT), final.place: _part(draft, held, final.source)}
    for where, part in parts.items():
        yield from measured(draft, where, part)
    files = [part.files(draft, where) for where, part in parts.items()]
    reads = {"root": files[0]["csv"], "own": files[1]["csv"]}
    writes = {"verdict": draft.at.of_run("holdout.json")}
    yield draft.target("holdout", "holdout", reads, writes, _params(draft, held, final), line=held.line)


def _part(draft: Draft, held: Holdout, where: Place | Slot) -> Part:
    """A command that wants a number measures those before it too."""
    tree, limit = swept_tree(draft, where), max(held.configs) + 1 if held.configs else None
    sweep = draft.spec.sweep
    blocks, ids = held.blocks or block_ids(draft), held.configs or config_ids(draft)
    return Part(HOLDOUT, blocks, tree, ids, limit or sweep.limit or sweep.grid, held.reads)


def _params(draft: Draft, held: Holdout, final: Final) -> dict[str, Any]:
    params = draft.weighing() if draft.spec.rules.paired else draft.measure()
    if held.blocks:
        params["blocks"] = {**params["blocks"], "ids": [*held.blocks]}
    if held.configs:
        params |= {"config_ids": [*held.configs], "sweep_config_limit": None}
    return {**params, "final": str(final.place), "source": str(final.source)}
