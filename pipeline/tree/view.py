"""What there is to see of a search: its projection, the details of an evaluation or a node, how it came about."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.graph import Target
from pipeline.core.projection import Moment, Projection
from pipeline.store.steering import steering_path
from pipeline.tree.report.manifest import fold_manifest
from pipeline.tree.report.projection import projection_of
from pipeline.tree.rules.positions import EVENTS, MANIFEST, OPENINGS, VERDICT, RunLayout
from pipeline.tree.run.records import Record, lives_of, read_events
from pipeline.tree.targets.builder import planned_config


def project(run: str, targets: Sequence[Target], moment: Moment) -> Projection:
    return projection_of(current_manifest(run, targets), moment)


def current_manifest(run: str, targets: Sequence[Target]) -> Record:
    lives = lives_of(read_events(RunLayout(run).of_run(EVENTS)))
    return fold_manifest(run, planned_config(targets), lives)


def watched(run: str, targets: Sequence[Target]) -> list[str]:
    """The files that a build or a person writes whenever something has changed."""
    del targets
    at = RunLayout(run)
    return [*(at.of_run(name) for name in (MANIFEST, EVENTS, OPENINGS, VERDICT)), steering_path(run)]
