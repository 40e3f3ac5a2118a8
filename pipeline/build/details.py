"""Looks up all there is to know of one target, or of one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from pipeline import kinds
from pipeline.build.session import Session
from pipeline.build.statuses import Standing, standings
from pipeline.core.graph import Target
from pipeline.core.outcome import FRESH
from pipeline.core.rooms import spoken
from pipeline.core.words import duration, listed
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
        [*_standing(standing)] if standing else [],
        {**kinds.shown(session.plans[target.run].kind, target), **_limits(session, target)},
        {path: "" if maker is None else session.graph.targets[maker].name for path, maker in makers.items()},
        target.outputs,
        receipts.receipt(target.name),
        receipts.failure(target.name),
    )
    return target_text(seen), standing is None or standing.status == FRESH


def of_run(session: Session, run: str, with_status: bool) -> tuple[str, bool]:
    plan = session.plans[run]
    own = session.select([run])
    statuses = _counted(session, own) if with_status else {}
    declared = {"spec": plan.spec, "kind": plan.kind, "store": plan.store, "targets": str(len(own))}
    return run_text(run, declared, plan.rooms, statuses), statuses.keys() <= {FRESH}


def of_several(session: Session, word: str, own: Collection[int], with_status: bool) -> tuple[str, bool]:
    """Such as a step."""
    statuses = _counted(session, own) if with_status else {}
    names = listed([session.graph.targets[i].name for i in sorted(own)])
    return run_text(word, {"targets": f"{len(own)}: {names}"}, {}, statuses), statuses.keys() <= {FRESH}


def _limits(session: Session, target: Target) -> dict[str, list[str]]:
    timeout, retries, rooms = target.limits
    places = session.plans[target.run].rooms
    return {
        "timeout": [] if timeout is None else [duration(timeout)],
        "retries": [str(retries)] if retries else [],
        "room": [f"{spoken(room)}, {places[room]} at once" for room in rooms],
    }


def _counted(session: Session, own: Collection[int]) -> dict[str, int]:
    """How many stand how."""
    seen = standings(session, own)
    counted = Counter(seen[i].status for i in own)
    return {status: counted[status] for status in STATUSES if counted[status]}


def _standing(standing: Standing) -> Iterator[str]:
    yield standing.status
    if standing.status != FRESH:
        yield from (reason_line(reason) for reason in standing.forecast.reasons)
        yield outlook(standing.forecast)
