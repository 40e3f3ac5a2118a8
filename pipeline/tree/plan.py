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
from pipeline.tree.targets.builder import TargetBuilder
from pipeline.tree.targets.depths import (
    assign_target,
    by_hand_target,
    idea_target,
    implement_target,
    node_target,
    promote_target,
    protect_target,
    recorded_ideas_target,
    report_target,
    root_target,
    start_target,
    validate_target,
    weigh_target,
)
from pipeline.tree.targets.sweeps import (
    cascade_baseline_targets,
    cascade_target,
    early_targets,
    late_targets,
    precheck_targets,
    score_targets,
    sweep_targets,
    whole_sweep,
)


def plan(spec: TreeSpec) -> Iterator[Target]:
    draft = TargetBuilder(spec)
    yield root_target(draft)
    if draft.protected_reads:
        yield protect_target(draft)
    yield from precheck_targets(draft, ROOT)
    yield from cascade_baseline_targets(draft) if spec.cascade else sweep_targets(draft, ROOT, whole_sweep(draft, ROOT))
    yield start_target(draft)
    if draft.roles["ideas"]["backend"] == PATCHES:
        yield recorded_ideas_target(draft)
    for depth in draft.depths:
        yield from _depth(draft, depth)
    yield from (node_target(draft, place) for place in draft.places(draft.depths.stop))
    yield report_target(draft)
    yield validate_target(draft)


def _depth(draft: TargetBuilder, depth: int) -> Iterator[Target]:
    if depth:
        yield from (node_target(draft, place) for place in draft.places(depth))
    if draft.roles["ideas"]["backend"] != PATCHES:
        yield from (idea_target(draft, slot) for slot in draft.slots(depth))
    yield assign_target(draft, depth)
    for slot in draft.slots(depth):
        yield from _evaluation(draft, slot)
    if draft.spec.cascade:
        yield from _cascade(draft, depth, draft.spec.cascade)
    if draft.spec.rules.paired:
        yield weigh_target(draft, depth)
    yield promote_target(draft, depth)


def _evaluation(draft: TargetBuilder, slot: EvalSlot) -> Iterator[Target]:
    if draft.roles["coder"]["backend"] == MANUAL:
        yield by_hand_target(draft, slot)
    yield implement_target(draft, slot)
    yield from precheck_targets(draft, slot)
    if draft.spec.cascade:
        yield from early_targets(draft, slot, draft.spec.cascade)
    else:
        yield from sweep_targets(draft, slot, whole_sweep(draft, slot))
        yield from score_targets(draft, slot)


def _cascade(draft: TargetBuilder, depth: int, keys: Cascade) -> Iterator[Target]:
    """Choose the ideas that go on, once all of the depth were measured on the first blocks, and measure these."""
    yield cascade_target(draft, depth, keys)
    for slot in draft.slots(depth):
        yield from late_targets(draft, slot)
        yield from score_targets(draft, slot)
