"""A tree spec as targets: a pure function of the spec, for all slots that a search can have.

What costs money or hours reads records without positions, so that its result is found again in whatever slot the same
work comes up; see `layout` for where they are."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.core.graph import Target
from pipeline.tree.draft import Draft
from pipeline.tree.model import MANUAL, PATCHES, Cascade, TreeSpec
from pipeline.tree.plan_cascade import baseline, cascade, early, late
from pipeline.tree.plan_depths import node, promote, report, root, start, validate, weigh
from pipeline.tree.plan_ideas import assign, by_hand, idea, implement, recorded
from pipeline.tree.plan_protect import protected
from pipeline.tree.plan_sweeps import measured, scored, sound, whole
from pipeline.tree.slots import ROOT, Slot


def plan(spec: TreeSpec) -> Iterator[Target]:
    draft = Draft(spec)
    yield root(draft)
    if draft.guarded:
        yield protected(draft)
    yield from sound(draft, ROOT)
    yield from baseline(draft) if spec.cascade else measured(draft, ROOT, whole(draft, ROOT))
    yield start(draft)
    if draft.roles["ideas"]["backend"] == PATCHES:
        yield recorded(draft)
    for depth in draft.depths:
        yield from _depth(draft, depth)
    yield from (node(draft, place) for place in draft.places(draft.depths.stop))
    yield report(draft)
    yield validate(draft)


def _depth(draft: Draft, depth: int) -> Iterator[Target]:
    if depth:
        yield from (node(draft, place) for place in draft.places(depth))
    if draft.roles["ideas"]["backend"] != PATCHES:
        yield from (idea(draft, slot) for slot in draft.slots(depth))
    yield assign(draft, depth)
    for slot in draft.slots(depth):
        yield from _evaluation(draft, slot)
    if draft.spec.cascade:
        yield from _cascade(draft, depth, draft.spec.cascade)
    if draft.spec.rules.paired:
        yield weigh(draft, depth)
    yield promote(draft, depth)


def _evaluation(draft: Draft, slot: Slot) -> Iterator[Target]:
    if draft.roles["coder"]["backend"] == MANUAL:
        yield by_hand(draft, slot)
    yield implement(draft, slot)
    yield from sound(draft, slot)
    if draft.spec.cascade:
        yield from early(draft, slot, draft.spec.cascade)
    else:
        yield from measured(draft, slot, whole(draft, slot))
        yield from scored(draft, slot)


def _cascade(draft: Draft, depth: int, keys: Cascade) -> Iterator[Target]:
    """Who goes on is known once all ideas of the depth were measured on the first blocks."""
    yield cascade(draft, depth, keys)
    for slot in draft.slots(depth):
        yield from late(draft, slot)
        yield from scored(draft, slot)
