"""How each target stands: fresh, stale, failed or ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.build.rehearsal import rehearse
from pipeline.build.session import Session
from pipeline.core.forecast import Forecast
from pipeline.core.graph import Target
from pipeline.core.outcome import FAILED, FRESH, IGNORED, STALE


class Standing(NamedTuple):
    """`forecast`: what the next build would do with it."""

    status: str
    forecast: Forecast


def standings(session: Session, wanted: Iterable[int]) -> dict[int, Standing]:
    """Of `wanted` and all it is made from, in graph order."""
    wanted = {*wanted}
    forecasts = rehearse(session, session.stale(wanted))
    seen = {i: forecasts.get(i, Forecast(FRESH)) for i in sorted(session.graph.needed(wanted))}
    return {i: Standing(_status(session, session.graph.targets[i], each), each) for i, each in seen.items()}


def _status(session: Session, target: Target, forecast: Forecast) -> str:
    if forecast.action in (FRESH, IGNORED):
        return forecast.action
    return FAILED if session.maker.receipts[target.run].failure(target.name) else STALE
