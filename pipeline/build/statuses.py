"""How each target stands: fresh, stale, failed or ignored; and a chart of them."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.build import project
from pipeline.build.rehearsal import rehearse
from pipeline.build.session import Session
from pipeline.core.forecast import FRESH as AS_IT_IS
from pipeline.core.forecast import Forecast
from pipeline.core.graph import Target
from pipeline.views.chart import FAILED, FRESH, IGNORED, STALE, Chart, chart


def charted(plans: Mapping[str, project.RunPlan], words: list[str], full: bool) -> Chart:
    """What `words` ask for, and all it is made from."""
    session = Session(plans)
    wanted = session.select(words)
    shown = sorted(session.graph.needed(wanted))
    forecasts = rehearse(session, session.stale(wanted))
    status = {i: _status(session, session.graph.targets[i], forecasts.get(i)) for i in shown}
    return chart(" ".join(words or session.plans), session.graph, shown, status, full)


def _status(session: Session, target: Target, forecast: Forecast | None) -> str:
    if forecast is not None and forecast.held_by == target.name:
        return IGNORED
    if forecast is None or forecast.action == AS_IT_IS:
        return FRESH
    return FAILED if session.maker.receipts[target.run].failure(target.name) else STALE
