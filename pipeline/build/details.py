"""Looks up all there is to know of one target, or of one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipeline.build.session import Session
from pipeline.build.statuses import Standing, standings
from pipeline.core.graph import Target
from pipeline.core.outcome import FRESH
from pipeline.views.chart import STATUSES
from pipeline.views.details import Details, run_text, target_text
from pipeline.views.why import outlook, reason_line


def of_target(session: Session, i: int, with_status: bool) -> tuple[str, bool]:
    """The text, and whether the target is fresh."""
    target = session.graph.targets[i]
    standing = standings(session, [i])[i] if with_status else None
    receipts = session.maker.receipts[target.run]
    makers = {path: session.graph.writer.get(path) for path in target.inputs}
    seen = Details(
        target.name,
        [*_standing(target, standing)] if standing else [],
        {word: _shown(value) for word, value in target.params.items() if isinstance(value, str | list)},
        {path: "" if maker is None else session.graph.targets[maker].name for path, maker in makers.items()},
        target.outputs,
        receipts.receipt(target.name),
        receipts.failure(target.name),
    )
    return target_text(seen), standing is None or standing.status == FRESH


def of_run(session: Session, run: str, with_status: bool) -> tuple[str, bool]:
    plan = session.plans[run]
    own = session.select([run])
    seen = standings(session, own) if with_status else {}
    counted = Counter(seen[i].status for i in own if i in seen)
    statuses = {status: counted[status] for status in STATUSES if counted[status]}
    declared = {"spec": plan.spec, "kind": plan.kind, "store": plan.store, "targets": str(len(own))}
    return run_text(run, declared, plan.rooms, statuses), statuses.keys() <= {FRESH}


def _standing(target: Target, standing: Standing) -> Iterator[str]:
    yield standing.status
    if standing.status != FRESH:
        yield from (reason_line(reason) for reason in standing.forecast.reasons)
        yield outlook(target.name, standing.forecast)


def _shown(value: Any) -> str:
    """A command as a list of words, or as a line."""
    return value if isinstance(value, str) else " ".join(map(str, value))
