"""Plan of a search: a pure function from the spec to targets, for all slots that the search can have.

The search decides while it runs which slots are used; targets of the others make empty records.  Targets that cost
money or hours read records without positions, so that their results are found again when the same work comes up in
another slot.  Order within a depth: ideas, assign, each evaluation, (cascade,) (weigh,) promote.  `rules/positions.py`
says where each record is."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.graph import Target
from pipeline.tree.rules.positions import ROOT, EvalSlot
from pipeline.tree.spec.model import MANUAL, PATCHES, Cascade, TreeSpec
from pipeline.tree.targets import depths, sweeps
from pipeline.tree.targets.builder import TargetBuilder


def plan(spec: TreeSpec) -> Iterator[Target]:
    draft = TargetBuilder(spec)
    yield depths.root_target(draft)
    if draft.protected_reads:
        yield depths.protect_target(draft)
    yield from sweeps.precheck_targets(draft, ROOT)
    if draft.baseline:
        yield sweeps.given_target(draft, draft.baseline)
    elif spec.cascade:
        yield from sweeps.joined_targets(draft, ROOT)
    else:
        yield from sweeps.sweep_targets(sweeps.whole_sweep(draft, ROOT))
    yield depths.start_target(draft)
    if draft.roles["ideas"]["backend"] == PATCHES:
        yield depths.recorded_ideas_target(draft)
    for depth in draft.shape.depths:
        yield from _depth(draft, depth)
    yield from (depths.node_target(draft, place) for place in draft.shape.places(draft.shape.max_depth))
    yield from depths.report_targets(draft)


def _depth(draft: TargetBuilder, depth: int) -> Iterator[Target]:
    if depth:
        yield from (depths.node_target(draft, place) for place in draft.shape.places(depth))
    if draft.roles["ideas"]["backend"] != PATCHES:
        yield from (depths.idea_target(draft, slot) for slot in draft.shape.slots(depth))
    yield depths.assign_target(draft, depth)
    if draft.waves.size:
        yield from depths.turn_targets(draft, depth)
    for slot in draft.shape.slots(depth):
        yield from _evaluation(draft, slot)
    if draft.spec.cascade:
        yield from _cascade(draft, depth, draft.spec.cascade)
    if draft.spec.rules.paired:
        yield depths.weigh_target(draft, depth)
    yield depths.promote_target(draft, depth)


def _evaluation(draft: TargetBuilder, slot: EvalSlot) -> Iterator[Target]:
    if draft.roles["coder"]["backend"] == MANUAL:
        yield depths.by_hand_target(draft, slot)
    yield depths.implement_target(draft, slot)
    yield from sweeps.precheck_targets(draft, slot)
    if draft.spec.cascade:
        yield from sweeps.early_targets(draft, slot, draft.spec.cascade)
    else:
        yield from sweeps.sweep_targets(sweeps.whole_sweep(draft, slot))
        yield from sweeps.score_targets(draft, slot)


def _cascade(draft: TargetBuilder, depth: int, keys: Cascade) -> Iterator[Target]:
    """Choose the ideas that go on, once all of the depth were measured on the first blocks, and measure these."""
    yield sweeps.cascade_target(draft, depth, keys)
    for slot in draft.shape.slots(depth):
        yield from sweeps.joined_targets(draft, slot)
        yield from sweeps.score_targets(draft, slot)
