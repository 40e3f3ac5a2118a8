"""Forecast of a build: outcome, status and time of each target.

Forecasts follow the graph's order; `after` has the contents that files would have.  A status is a forecast in one word:
fresh, stale, failed or ignored.  Times come from receipts and from stored results; a target that never ran is expected
to take as long as others of its step.  All of that together is the plan of a build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline import kinds
from pipeline.build.session import BuildSession
from pipeline.core import recipe as recipes
from pipeline.core.freshness import FAILED_BEFORE, FORGOTTEN, NEVER_BUILT, Reason, Receipt, stale_reasons
from pipeline.core.graph import Target, step_of
from pipeline.core.outcome import BUILT, FAILED, FRESH, HELD, IGNORED, MAYBE, RECALLED, RUN, STALE, Forecast
from pipeline.core.schedule import Schedule, wall_time
from pipeline.core.text import duration, plural
from pipeline.errors import SpecError, unreadable_message
from pipeline.views.answers import BuildPlan, PlanItem, plan_reasons


def rehearse(session: BuildSession, todo: Iterable[int]) -> dict[int, Forecast]:
    rehearsal = _Rehearsal(session)
    for i in sorted(todo):  # the graph's order: each after all it reads from
        rehearsal.forecasts[i] = rehearsal.forecast(i)
    return rehearsal.forecasts


class _Rehearsal:
    """Rehearsal in progress.  `after` has the contents that files will have, where they change; None where unknown."""

    def __init__(self, session: BuildSession) -> None:
        self.session, self.maker = session, session.maker
        self.after: dict[str, str | None] = {}
        self.forecasts: dict[int, Forecast] = {}

    def forecast(self, i: int) -> Forecast:
        """Forecast a target after all that it reads from."""
        target, in_doubt = self.session.graph.targets[i], i in self.session.suspects
        above = [self.forecasts[j] for j in self.session.graph.above(i) if j in self.forecasts]
        ignored_by = next((seen.held_by for seen in above if seen.action == IGNORED), "")
        if self.maker.receipts[target.run].is_ignored(target.name):
            ignored_by = target.name
        held_by = next((seen.held_by for seen in above if seen.held_by), "")
        if not in_doubt and not held_by and not ignored_by and self.after.keys().isdisjoint(target.inputs):
            return Forecast(FRESH)
        recipe = self.maker.recipe(target)
        receipt = self.maker.receipts[target.run].receipt(target.name)
        found = self._stale_reasons(target, receipt, recipe) if in_doubt else ()
        if ignored_by:
            return Forecast(IGNORED, found, ignored_by)
        inputs = {p: self.after[p] if p in self.after else self._content(target, p) for p in target.inputs}
        missing = (path for path, content in inputs.items() if content is None and path not in self.after)
        held_by = held_by or next(missing, "")
        action = self._action(target, receipt, recipe, inputs, bool(held_by))
        may_recall = action == RUN and None in inputs.values() and self._may_recall(target)
        return Forecast(action, found, held_by, may_recall)

    def _may_recall(self, target: Target) -> bool:
        """Check if a target may come from the store: none that is never kept there, nor one that was forgotten."""
        return self.maker.stage(target).stored and not self.maker.receipts[target.run].is_forgotten(target.name)

    def _stale_reasons(self, target: Target, receipt: Receipt | None, recipe: Mapping[str, Any]) -> tuple[Reason, ...]:
        receipts = self.maker.receipts[target.run]
        if receipt is None:
            forgotten = FORGOTTEN if receipts.is_forgotten(target.name) else NEVER_BUILT
            return (Reason(FAILED_BEFORE if receipts.failure(target.name) else forgotten, ""),)
        inputs = {path: self._content(target, path) for path in target.inputs}
        outputs = {path: self._content(target, path) for path in target.outputs}
        return tuple(stale_reasons(receipt, recipe, inputs, outputs))

    def _content(self, target: Target, path: str) -> str | None:
        try:
            return self.maker.files.content(path)
        except OSError as error:
            where = f"{self.session.plans[target.run].spec}:{target.line}"
            raise SpecError(f"{where}: {target.name}: {unreadable_message(path, error)}") from error

    def _action(
        self,
        target: Target,
        receipt: Receipt | None,
        recipe: dict[str, Any],
        inputs: Mapping[str, str | None],
        is_held: bool,
    ) -> str:
        """Forecast what is done with a target.  One that is held back holds back all that reads it, if it is stale."""
        contents = [content for content in inputs.values() if content is not None]
        key = recipes.result_key(recipe, contents) if len(contents) == len(inputs) else ""
        if key and self.maker.is_fresh(target, key):
            return FRESH
        if key and not is_held and self._may_recall(target):
            stored = self.maker.stores[target.run].peek(key)
            if stored and len(stored.contents) == len(target.outputs):
                self.after |= dict(zip(target.outputs, stored.contents, strict=True))
                return RECALLED
        self.after |= dict.fromkeys(target.outputs)
        if is_held:
            return HELD
        if not key and receipt and _may_be_fresh(receipt, recipe, inputs) and self.maker.is_intact(target, receipt):
            return MAYBE
        return RUN


def _may_be_fresh(receipt: Receipt, recipe: dict[str, Any], inputs: Mapping[str, str | None]) -> bool:
    """Check if a target comes out fresh when its unknown inputs do."""
    if receipt.unsettled or recipes.compact_json(receipt.recipe) != recipes.compact_json(recipe):
        return False
    old = list(receipt.inputs.values())
    return len(old) == len(inputs) and all(b in (None, a) for a, b in zip(old, inputs.values(), strict=True))


class TargetStatus(NamedTuple):
    """Status of a target, and what the next build would do with it."""

    status: str
    forecast: Forecast


def target_statuses(session: BuildSession, wanted: Iterable[int]) -> dict[int, TargetStatus]:
    """Statuses of `wanted` and all it is made from, in graph order."""
    wanted = {*wanted}
    forecasts = rehearse(session, session.stale(wanted))
    statuses: dict[int, TargetStatus] = {}
    for i in sorted(session.graph.upstream(wanted)):
        forecast, target = forecasts.get(i, Forecast(FRESH)), session.graph.targets[i]
        if (status := forecast.action) not in (FRESH, IGNORED):
            status = FAILED if session.maker.receipts[target.run].failure(target.name) else STALE
        statuses[i] = TargetStatus(status, forecast)
    return statuses


# Of a step that nothing is known of below, so many others are asked: enough for a mean.
SIBLINGS_ASKED = 20


def last_seconds(session: BuildSession, target: Target) -> float | None:
    """Seconds that a target took; a recalled result took as long as where it was made."""
    receipt = session.maker.receipts[target.run].receipt(target.name)
    if receipt is None:
        return None
    if receipt.how == BUILT:
        return receipt.end - receipt.start
    stored = session.maker.stores[target.run].peek(receipt.key)
    return stored.seconds if stored else None


def expected_seconds(session: BuildSession, todo: Iterable[int]) -> dict[int, tuple[float | None, bool]]:
    """Seconds of each target, and if they are guessed: its own last time, or else the mean of its step, if any ran."""
    targets = session.graph.targets
    own = {i: last_seconds(session, targets[i]) for i in todo}
    asked: dict[str, list[float]] = {step_of(targets[i].name): [] for i, seconds in own.items() if seconds is None}
    for target in targets if asked else ():
        times = asked.get(step_of(target.name))
        if times is not None and len(times) < SIBLINGS_ASKED and (seconds := last_seconds(session, target)) is not None:
            times.append(seconds)
    means = {step: sum(times) / len(times) for step, times in asked.items() if times}
    guesses = {i: means.get(step_of(targets[i].name)) for i, seconds in own.items() if seconds is None}
    return {i: (guesses.get(i, seconds), guesses.get(i) is not None) for i, seconds in own.items()}


def _engine_lines(session: BuildSession, running: Sequence[int], seconds: Mapping[int, float]) -> Iterator[str]:
    """A line for each run of which an engine makes something: how many targets, and what they took the last time."""
    of_run: dict[str, list[int]] = {}
    for i in running:
        of_run.setdefault(session.graph.targets[i].run, []).append(i)
    for run, every in of_run.items():
        if own := [i for i in every if session.maker.is_ordered(session.graph.targets[i])]:
            known = [seconds[i] for i in own if i in seconds]
            took = f", {duration(sum(known))} for {len(known)} of them by the last times" if known else ""
            what = f"{plural(len(own), 'target')} by {session.plans[run].engine_name.capitalize()}"
            yield f"{run}: {what}{took}; {plural(len(every) - len(own), 'target')} here"


def plan_build(session: BuildSession, wanted: Iterable[int], todo: Iterable[int], jobs: int) -> BuildPlan:
    graph = session.graph
    forecasts = {i: seen for i, seen in rehearse(session, todo).items() if seen.action != FRESH}
    running = [i for i, seen in forecasts.items() if seen.action in (RUN, MAYBE)]
    times = expected_seconds(session, running)
    items = []
    for i, seen in forecasts.items():
        name = graph.targets[i].name
        items.append(PlanItem(name, seen.action, plan_reasons(seen), *times.get(i, (None, False)), seen.may_recall))
    seconds = {i: s or 0.0 for i, (s, _) in times.items()}
    own = {i: session.rooms_of(graph.targets[i]) for i in seconds}
    schedule = Schedule({i: graph.above(i) for i in seconds}, own, session.room_places())
    asked = [session.plans[run] for run in dict.fromkeys(graph.targets[i].run for i in sorted(wanted))]
    outlook = [f"{plan.run}: {line}" for plan in asked for line in kinds.outlook(plan.kind, plan.targets)]
    outlook += _engine_lines(session, running, {i: s for i, (s, _) in times.items() if s is not None})
    at_once = wall_time(schedule, seconds, jobs)
    return BuildPlan(items, len(graph.upstream(wanted)), sum(seconds.values()), at_once, jobs, outlook)
