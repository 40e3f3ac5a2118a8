"""The plan of a build: what a rehearsal foresees, with the times it would take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pipeline import kinds
from pipeline.build.rehearsal import rehearse
from pipeline.build.session import Session
from pipeline.build.times import expected
from pipeline.core.forecast import MAYBE, RUN, wall
from pipeline.core.outcome import FRESH
from pipeline.core.rooms import rooms, rooms_of
from pipeline.views.plan import Item, Plan, why


def outlined(session: Session, wanted: Iterable[int], todo: Iterable[int], jobs: int) -> Plan:
    graph = session.graph
    forecasts = {i: seen for i, seen in rehearse(session, todo).items() if seen.action != FRESH}
    running = [i for i, seen in forecasts.items() if seen.action in (RUN, MAYBE)]
    times = {i: (seconds, guessed) for i, seconds, guessed in expected(session, running)}
    items = []
    for i, seen in forecasts.items():
        name = graph.targets[i].name
        items.append(Item(name, seen.action, why(seen), *times.get(i, (None, False))))
    seconds = {i: s or 0.0 for i, (s, _) in times.items()}
    own = {i: rooms_of(graph.targets[i]) for i in seconds}
    at_once = wall(seconds, {i: graph.above(i) for i in seconds}, own, rooms(session.plans.values()), jobs)
    return Plan(items, len(graph.needed(wanted)), sum(seconds.values()), at_once, jobs, [*_outlook(session, wanted)])


def _outlook(session: Session, wanted: Iterable[int]) -> Iterator[str]:
    """Of runs that are asked for; not of those that they only read from."""
    for run in dict.fromkeys(session.graph.targets[i].run for i in sorted(wanted)):
        plan = session.plans[run]
        yield from (f"{run}: {line}" for line in kinds.outlook(plan.kind, plan.targets))
