"""Finds out why targets are stale: looks no further than at what they are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from pipeline.build.evidence import evidence
from pipeline.build.rehearsal import rehearse
from pipeline.build.session import Session
from pipeline.core.causes import Causes, Chain
from pipeline.core.forecast import Forecast
from pipeline.core.freshness import Reason
from pipeline.core.outcome import FRESH, IGNORED
from pipeline.views import why


class Inquiry:
    """One rehearsal for all that is asked."""

    def __init__(self, session: Session, wanted: Iterable[int]) -> None:
        self.session, self.graph = session, session.graph
        self.forecasts = rehearse(session, session.stale(wanted))
        self.causes = Causes(session.graph, {i: seen.reasons for i, seen in self.forecasts.items()})

    def answer(self, word: str) -> str:
        """A single target, or the targets that the word stands for."""
        own = self.session.select([word])
        alone = len(own) == 1 and word not in self.session.plans
        return self.told(*own) if alone else self.told_together(word, own)

    def told(self, i: int) -> str:
        name = self.graph.targets[i].name
        forecast = self.forecasts.get(i, Forecast(FRESH))
        causes = map(self._cause, self.causes.chains(i)) if i in self.causes.own else ()
        return why.answered(why.Answer(name, forecast, tuple(causes), self._failures([i])))

    def told_together(self, title: str, own: Collection[int]) -> str:
        """Of many: those that are stale by themselves, those with the same reasons together."""
        left_out = Counter(self.forecasts[i].held_by for i in sorted(own) if self._is_left_out(i))
        alike: dict[tuple[Reason, ...], list[int]] = {}
        for i in self.causes.above(own):
            if not self._is_left_out(i):
                alike.setdefault(self.causes.own[i], []).append(i)
        groups = [
            ([self.graph.targets[i].name for i in group], self._cause(Chain((group[0],), reasons, 0)))
            for reasons, group in alike.items()
        ]
        stale = [i for i in own if i in self.causes.own and not self._is_left_out(i)]
        below = sum(not self.causes.own[i] for i in stale)
        numbers = why.Numbers(len(own), len(stale), below, [*left_out.items()])
        return why.summed_up(title, numbers, groups, self._failures(own))

    def settled(self, i: int) -> bool:
        """Is there nothing to be said of it, but that it is fresh?"""
        return i not in self.causes.own and not self._is_left_out(i)

    def _is_left_out(self, i: int) -> bool:
        return i in self.forecasts and self.forecasts[i].action == IGNORED

    def _cause(self, chain: Chain) -> why.Cause:
        """In words, with what can still be shown of the old contents."""
        target = self.graph.targets[chain.path[-1]]
        way = tuple(
            (self.graph.targets[above].name, self._between(below, above))
            for below, above in zip(chain.path, chain.path[1:], strict=False)
        )
        reasons = tuple((reason, evidence(self.session, target, reason)) for reason in chain.reasons)
        return why.Cause(target.name, way, reasons, chain.alike)

    def _failures(self, wanted: Collection[int]) -> why.Failures:
        """Of stale targets that these are made from, themselves included: those that failed when they ran last."""
        targets = [self.graph.targets[i] for i in sorted(self.graph.needed(wanted) & self.causes.own.keys())]
        recorded = [(t.name, self.session.maker.receipts[t.run].failure(t.name)) for t in targets]
        return [(name, failure) for name, failure in recorded if failure]

    def _between(self, below: int, above: int) -> str:
        """The first output of `above` that `below` reads."""
        made = {*self.graph.targets[above].outputs}
        return next(path for path in self.graph.targets[below].inputs if path in made)
