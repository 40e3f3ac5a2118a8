"""Finds out why targets are stale: looks no further than at what they are made from."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.build.evidence import evidence
from pipeline.build.rehearsal import rehearse
from pipeline.build.session import Session
from pipeline.core.causes import Causes, Chain
from pipeline.core.forecast import Forecast
from pipeline.core.freshness import Reason
from pipeline.core.outcome import FRESH
from pipeline.views import why


class Inquiry:
    """One rehearsal for all that is asked."""

    def __init__(self, session: Session, wanted: Iterable[int]) -> None:
        self.session, self.graph = session, session.graph
        self.forecasts = rehearse(session, session.stale(wanted))
        self.causes = Causes(session.graph, {i: seen.reasons for i, seen in self.forecasts.items()})

    def told(self, i: int) -> str:
        name = self.graph.targets[i].name
        forecast = self.forecasts.get(i, Forecast(FRESH))
        if i not in self.causes.own:
            ignored = self.session.maker.receipts[self.graph.targets[i].run].ignored(name)
            return why.answered(why.Answer(name, outlook=why.IGNORED.format(name) if ignored else ""))
        causes = tuple(map(self._cause, self.causes.chains(i)))
        return why.answered(why.Answer(name, causes, why.outlook(name, forecast)))

    def told_run(self, run: str) -> str:
        """The targets of a run that are stale by themselves, those with the same reasons together."""
        own = [i for i, t in enumerate(self.graph.targets) if t.run == run]
        alike: dict[tuple[Reason, ...], list[int]] = {}
        for i in self.causes.above(own):
            alike.setdefault(self.causes.own[i], []).append(i)
        groups = [
            ([self.graph.targets[i].name for i in group], self._cause(Chain((group[0],), reasons, 0)))
            for reasons, group in alike.items()
        ]
        below = [i for i in own if self.causes.own.get(i) == ()]
        return why.summed_up(run, len(own), groups, len(below))

    def _cause(self, chain: Chain) -> why.Cause:
        """In words, with what can still be shown of the old contents."""
        target = self.graph.targets[chain.path[-1]]
        way = tuple(
            (self.graph.targets[above].name, self._between(below, above))
            for below, above in zip(chain.path, chain.path[1:], strict=False)
        )
        reasons = tuple((reason, evidence(self.session, target, reason)) for reason in chain.reasons)
        failure = self.session.maker.receipts[target.run].failure(target.name)
        return why.Cause(target.name, way, reasons, chain.alike, failure)

    def _between(self, below: int, above: int) -> str:
        """The first output of `above` that `below` reads."""
        made = {*self.graph.targets[above].outputs}
        return next(path for path in self.graph.targets[below].inputs if path in made)
