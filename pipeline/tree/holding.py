"""What a search holds out, opened once it has stopped: for which node, what is measured, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.graph import Target
from pipeline.errors import SpecError
from pipeline.tree.draft import Draft
from pipeline.tree.found import Found
from pipeline.tree.holding_told import told
from pipeline.tree.model import Holdout, TreeSpec
from pipeline.tree.plan_holdout import Final, holdout
from pipeline.tree.records import Record, load
from pipeline.tree.sealing import open_seal
from pipeline.tree.slots import Place, parse_place, parse_slot
from pipeline.tree.summary_holdout import lines

__all__ = ["RETOLD", "lines", "open_seal", "question", "sources", "targets", "told"]

# What tells of a search, and has to tell of this too.
RETOLD = ("report", "validate")


def question(run: str, spec: TreeSpec, planned: Sequence[Target]) -> Record:
    """What is asked: whether the final node is better than the start on what the search has not seen."""
    held = _held(run, spec)
    found = Found(run, next(dict(target.params) for target in planned if target.stage == "report"))
    at = found.at
    last = [(depth, record["beam"][str(Place(depth + 1, 0))]) for depth, record in found.promoted.items()]
    final = next(((Place(d + 1, 0), beam) for d, beam in reversed(last) if beam["promoted_from_eval_id"]), None)
    if final is None:
        raise SpecError(f"{run}: nothing was promoted, and the start is not better than itself; the seal stays closed")
    code, root = load(at.of_node(final[0], "code.json")), load(at.of_run("root.json"))
    return {
        "final": str(final[0]),
        "source": final[1]["promoted_from_eval_id"],
        "commit": code["commit"],
        "tree": code["tree"],
        "root_tree": root["tree"],
        "blocks": [*held.blocks],
        "configs": [*held.configs],
        "reads": {port: [*paths] for port, paths in held.reads.items()},
    }


def _held(run: str, spec: TreeSpec) -> Holdout:
    if spec.holdout is None:
        raise SpecError(f"{run}: its spec has no `holdout:`; name blocks or configs there before the search begins")
    if spec.dry_run:
        raise SpecError(f"{run}: a dry run measures nothing that could be held out")
    return spec.holdout


def targets(spec: TreeSpec, asked: Mapping[str, Any]) -> list[Target]:
    assert spec.holdout is not None
    final = Final(parse_place(asked["final"]), parse_slot(asked["source"]))
    return [*holdout(Draft(spec), spec.holdout, final)]


def sources(spec: TreeSpec) -> list[str]:
    paths = [path for group in (spec.holdout.reads.values() if spec.holdout else ()) for path in group]
    parts = [path.split("/") for path in paths if path.startswith("runs/")]
    return sorted({part[1] for part in parts if len(part) > 2} - {spec.name})
