"""What can be said of a build before it: what would become of each target, and how long it would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from pipeline.core.freshness import Reason
from pipeline.core.schedule import Schedule

# Or FRESH, RECALLED or IGNORED, as an outcome.
RUN, MAYBE, HELD = "run", "maybe", "held"


class Forecast(NamedTuple):
    """What would become of a target, and what is different now from what was recorded of it.

    MAYBE: it is redone only if what it reads comes out different.  HELD: it is stale, and the missing file `held_by`
    keeps it so; what is FRESH may be held too, without harm.  IGNORED: it is left out, fresh or not, since the user
    told so of `held_by`: of itself, or of one that it is made from."""

    action: str
    reasons: tuple[Reason, ...] = ()
    held_by: str = ""


def wall(
    seconds: Mapping[int, float],
    above: Mapping[int, Iterable[int]],
    rooms_of: Mapping[int, tuple[str, ...]],
    rooms: Mapping[str, int],
    jobs: int,
) -> float:
    """From the first start to the last end, `jobs` at once as far as their rooms allow."""
    schedule = Schedule(above, rooms_of, rooms)
    running: list[tuple[float, int]] = []
    now = 0.0
    while True:
        while len(running) < jobs and (i := schedule.start()) is not None:
            heappush(running, (now + seconds[i], i))
        if not running:
            return now
        now, ended = heappop(running)
        schedule.leave(ended)
        schedule.ended(ended, ok=True)
